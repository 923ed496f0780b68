//! The datasets in a browser.
