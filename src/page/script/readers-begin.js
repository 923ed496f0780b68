"use strict";
// The readers of HTML, Markdown and CSV. The page's script asks for them once such an answer comes, and hands over what it
// makes elements and links with.
document.currentScript.read = (type, text, view, make, link) => {
