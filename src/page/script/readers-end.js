
  if (type === "text/csv") {
    view.append(table(text));
  } else if (type === "text/markdown") {
    markdown(text.split(/\r?\n/), view);
  } else {
    // Browsers complain of ignored styles, even if they are invisible.
    const markup = text.replace(/<style[\s\S]*?<\/style>/gi, "");
    copyMarkup(new DOMParser().parseFromString(markup, "text/html").body, view);
  }
};
