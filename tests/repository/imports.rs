//! The files under `src` import each other without a circle, so that each can be read after what it stands on.
//!
//! An edge goes from a file to each file whose items it names: by `use`, or by a path in its code that begins with `crate`,
//! `super`, `self` or a module of its own. A re-export leads to the file that it re-exports, and is an edge of the file that
//! holds it only if that file uses the name itself. A file that defines items beside its re-exports is an edge of its own to whatever
//! names a re-export by it. Not counted are comments, strings, test modules, and what a macro writes.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fs,
    path::Path,
};

/// Where a module stands: `["ledger", "memory"]`.
type ModulePath = Vec<String>;

#[derive(Debug, Default)]
struct Module {
    /// The paths that its code names.
    named: BTreeSet<ModulePath>,
    /// Names that it re-exports, and whether its own code uses them.
    exports: BTreeMap<String, (ModulePath, bool)>,
    /// Paths of which it re-exports everything.
    globs: Vec<ModulePath>,
    /// Whether it has items of its own beside modules and re-exports.
    defines: bool,
}

#[test]
fn no_file_imports_itself_by_way_of_others() {
    let mut sources = BTreeMap::new();
    read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &ModulePath::new(), &mut sources);
    assert!(sources.len() > 100, "only {} files found", sources.len());
    let circles = circles(&sources);
    let circles: Vec<String> = circles.iter().map(|circle| circle.join(" → ")).collect();
    assert!(circles.is_empty(), "import circles:\n{}", circles.join("\n"));
}

/// The rooms of the paywall. Each may know those before it; those of one line do not know each other.
const PAYWALL: [&[&str]; 12] = [
    &["error", "body"],
    &["seller"],
    &["refusal"],
    &["priced_request"],
    &["dialect", "sale"],
    &["way"],
    &["door"],
    &["inner_service"],
    &["checkout"],
    &["future"],
    &["service"],
    &["layer"],
];

#[test]
fn the_rooms_of_the_paywall_know_each_other_one_way() {
    let mut sources = BTreeMap::new();
    read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &ModulePath::new(), &mut sources);
    let modules: BTreeMap<_, _> = sources.iter().map(|(at, text)| (at.clone(), parse(at, text, &sources))).collect();
    let room = |at: &ModulePath| (at.len() > 1 && at[0] == "paywall").then(|| at[1].clone());
    let rank = |room: &str| PAYWALL.iter().position(|rooms| rooms.contains(&room));
    let mut against = BTreeSet::new();
    for (at, module) in &modules {
        for reached in edges(at, module, &modules) {
            let (Some(from), Some(to)) = (room(at), room(reached)) else { continue };
            // The merchant stands above all of them.
            if from == to || from == "merchant" {
                continue;
            }
            let ranks = rank(&from).zip(rank(&to)).unwrap_or_else(|| panic!("a room that has no rank: {from} or {to}"));
            if ranks.0 <= ranks.1 {
                against.insert(format!("{} → {}", at.join("/"), reached.join("/")));
            }
        }
    }
    assert_eq!(against, BTreeSet::new(), "these know a room that they must not know");
}

/// Reads every file of a folder, but for test modules.
fn read(folder: &Path, module: &ModulePath, sources: &mut BTreeMap<ModulePath, String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let stem = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let is_file = path.extension().is_some_and(|extension| extension == "rs");
        let module = match stem.as_str() {
            "tests" => continue,
            "lib" | "mod" if is_file => module.clone(),
            _ => [module.clone(), vec![stem]].concat(),
        };
        if is_file {
            sources.insert(module, fs::read_to_string(&path).unwrap());
        } else if path.is_dir() {
            read(&path, &module, sources);
        }
    }
}

/// The shortest circle through each file that is in one, each circle once.
fn circles(sources: &BTreeMap<ModulePath, String>) -> BTreeSet<Vec<String>> {
    let modules: BTreeMap<_, _> = sources.iter().map(|(at, text)| (at.clone(), parse(at, text, sources))).collect();
    let edges: BTreeMap<_, _> = modules.iter().map(|(at, module)| (at, edges(at, module, &modules))).collect();
    edges.keys().filter_map(|start| circle(start, &edges)).collect()
}

/// The shortest way from a file back to itself, told from its first file in the order of names.
fn circle(start: &ModulePath, edges: &BTreeMap<&ModulePath, BTreeSet<&ModulePath>>) -> Option<Vec<String>> {
    let mut came_from: BTreeMap<&ModulePath, &ModulePath> = BTreeMap::new();
    let mut queue = VecDeque::from([start]);
    while let Some(at) = queue.pop_front() {
        for next in &edges[at] {
            if came_from.contains_key(next) {
                continue;
            }
            came_from.insert(next, at);
            queue.push_back(next);
        }
    }
    let mut way = vec![*came_from.get(start)?];
    while way[way.len() - 1] != start {
        way.push(came_from[way[way.len() - 1]]);
    }
    way.reverse();
    let first = way.iter().enumerate().min_by_key(|(_, at)| **at).map_or(0, |(first, _)| first);
    way.rotate_left(first);
    Some(way.into_iter().map(|at| at.join("/")).collect())
}

fn edges<'a>(
    from: &ModulePath,
    module: &Module,
    modules: &'a BTreeMap<ModulePath, Module>,
) -> BTreeSet<&'a ModulePath> {
    let used = module.exports.values().filter(|(_, used)| *used).map(|(path, _)| path);
    let named = module.named.iter().chain(used);
    let reached = named.flat_map(|path| home(path, modules, 0).into_iter().chain(passed(path, modules)));
    reached.filter(|reached| *reached != from).collect()
}

/// The file that an absolute path goes through on its way to what that file re-exports, if it defines items as well.
fn passed<'a>(path: &[String], modules: &'a BTreeMap<ModulePath, Module>) -> Option<&'a ModulePath> {
    let depth = (0..=path.len()).rev().find(|depth| modules.contains_key(&path[..*depth]))?;
    let (at, module) = modules.get_key_value(&path[..depth])?;
    let re_exported = module.exports.contains_key(path.get(depth)?);
    (re_exported && module.defines && !at.is_empty()).then_some(at)
}

/// The file that an absolute path leads to, re-exports followed.
fn home<'a>(path: &[String], modules: &'a BTreeMap<ModulePath, Module>, followed: usize) -> Option<&'a ModulePath> {
    assert!(followed < 9, "re-exports in a circle: {path:?}");
    let depth = (0..=path.len()).rev().find(|depth| modules.contains_key(&path[..*depth]))?;
    let (at, module) = modules.get_key_value(&path[..depth])?;
    let Some(name) = path.get(depth) else { return Some(at) };
    if let Some((target, _)) = module.exports.get(name) {
        return home(&[target, &path[depth + 1..]].concat(), modules, followed + 1);
    }
    let of_glob = |glob: &ModulePath| {
        let target = home(glob, modules, followed + 1)?;
        modules[target].exports.contains_key(name).then_some(target)
    };
    Some(module.globs.iter().find_map(of_glob).unwrap_or(at))
}

fn parse(at: &ModulePath, text: &str, sources: &BTreeMap<ModulePath, String>) -> Module {
    let code = without_test_modules(&without_comments_and_strings(text));
    let absolute = |path: &[String]| absolute(at, path, sources);
    let mut module = Module::default();
    let mut rest = String::new();
    let mut exports = Vec::new();
    let mut tail = code.as_str();
    while let Some((before, is_export, tree, after)) = next_use(tail) {
        rest.push_str(before);
        for (path, name) in leaves(tree) {
            let Some(path) = absolute(&path) else { continue };
            match (is_export, name.as_str()) {
                (false, _) => drop(module.named.insert(path)),
                (true, "*") => module.globs.push(path),
                (true, _) => exports.push((name, path)),
            }
        }
        tail = after;
    }
    rest.push_str(tail);
    module.defines = rest.split(['\n', ';', '}']).map(without_visibility_and_space).any(is_item);
    let words: BTreeSet<&str> = rest.split(|c| !is_word(c)).collect();
    module.exports = exports.into_iter().map(|(name, path)| (name.clone(), (path, words.contains(&*name)))).collect();
    module.named.extend(paths(&rest).iter().filter_map(|path| absolute(path)));
    module
}

fn without_visibility_and_space(line: &str) -> &str {
    without_visibility(line.trim_start())
}

/// Whether a line begins an item other than a module.
fn is_item(line: &str) -> bool {
    const ITEMS: [&str; 9] = ["fn", "struct", "enum", "trait", "impl", "const", "static", "type", "union"];
    let word = line.split(|c: char| !is_word(c)).next().unwrap_or_default();
    ITEMS.contains(&word) || ["async fn", "unsafe fn"].iter().any(|begin| line.starts_with(begin))
}

/// A path from the crate's root; `None` where it leads out of the crate.
fn absolute(at: &ModulePath, path: &[String], sources: &BTreeMap<ModulePath, String>) -> Option<ModulePath> {
    let mut base = at.clone();
    let mut rest = path;
    match rest.first()?.as_str() {
        "crate" => (base, rest) = (ModulePath::new(), &rest[1..]),
        "self" => rest = &rest[1..],
        "super" => {
            while rest.first().is_some_and(|first| first == "super") {
                base.pop();
                rest = &rest[1..];
            }
        }
        child if !sources.contains_key(&[&base[..], &[child.to_owned()]].concat()) => return None,
        _ => {}
    }
    Some([&base[..], rest].concat())
}

/// The next `use`: what stands before it, whether it re-exports, its tree, and what comes after it.
fn next_use(code: &str) -> Option<(&str, bool, &str, &str)> {
    let starts = code.match_indices("use ").map(|(at, _)| at);
    let start = starts.into_iter().find(|at| {
        let before = code[..*at].trim_end();
        before.is_empty() || before.ends_with([';', '}', '{', ']', ')']) || before.ends_with("pub")
    })?;
    let end = start + code[start..].find(';')?;
    let before = &code[..start];
    let line = before.rsplit([';', '}', '{', ']']).next().unwrap_or_default();
    Some((before, line.contains("pub"), &code[start + 4..end], &code[end + 1..]))
}

/// The leaves of a tree of imports, each with the name that it brings into scope.
fn leaves(tree: &str) -> Vec<(ModulePath, String)> {
    let tree = tree.trim();
    let Some((prefix, group)) = tree.split_once('{') else {
        let (path, alias) = tree.split_once(" as ").unwrap_or((tree, ""));
        let mut path: ModulePath = path.split("::").map(|part| part.trim().to_owned()).collect();
        let last = path.last().cloned().unwrap_or_default();
        if last == "*" || last == "self" && path.len() > 1 {
            path.pop();
        }
        let name = if alias.is_empty() { last } else { alias.trim().to_owned() };
        return vec![(path, name)];
    };
    let group = group.rsplit_once('}').map_or(group, |(group, _)| group);
    let mut depth = 0;
    let parts = group.split(|c| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        c == ',' && depth == 0
    });
    let parts = parts.filter(|part| !part.trim().is_empty());
    parts.flat_map(|part| leaves(&format!("{prefix}{}", part.trim()))).collect()
}

/// Every path in code, if it has more than one part.
fn paths(code: &str) -> BTreeSet<ModulePath> {
    let words = code.split(|c| !is_word(c) && c != ':');
    let paths = words.map(|word| word.split("::").map(str::to_owned).collect::<ModulePath>());
    paths.filter(|path| path.len() > 1 && path.iter().all(|part| !part.contains(':'))).collect()
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Each comment and each literal of characters becomes a space.
fn without_comments_and_strings(text: &str) -> String {
    let mut code = String::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let length = literal(rest, code.chars().next_back());
        code.push(if length == 0 { c } else { ' ' });
        rest = &rest[length.max(c.len_utf8())..];
    }
    code
}

/// How long the comment or literal is that `text` begins with; 0 where it begins with code.
fn literal(text: &str, before: Option<char>) -> usize {
    let through = |from: usize, end: &str| text[from..].find(end).map_or(text.len(), |at| from + at + end.len());
    let hashes = text.strip_prefix('r').map_or(0, |raw| raw.len() - raw.trim_start_matches('#').len());
    if text.starts_with("//") {
        through(2, "\n")
    } else if text.starts_with("/*") {
        through(2, "*/")
    } else if text.starts_with('r') && text[1 + hashes..].starts_with('"') && !before.is_some_and(is_word) {
        through(2 + hashes, &format!("\"{}", "#".repeat(hashes)))
    } else if let Some(string) = text.strip_prefix('"') {
        let mut escaped = false;
        let end = string.find(|c| {
            let ends = c == '"' && !escaped;
            escaped = c == '\\' && !escaped;
            ends
        });
        end.map_or(text.len(), |end| end + 2)
    } else if text.starts_with("'\\") {
        through(3, "'")
    } else if text.starts_with('\'') && text.chars().nth(2) == Some('\'') {
        text.char_indices().nth(3).map_or(text.len(), |(end, _)| end)
    } else {
        0
    }
}

/// Leaves out `#[cfg(test)] mod …`, with all that is in it.
fn without_test_modules(code: &str) -> String {
    let Some((before, after)) = code.split_once("#[cfg(test)]") else { return code.to_owned() };
    if !without_visibility(after.trim_start()).starts_with("mod ") {
        return format!("{before}{}", without_test_modules(after));
    }
    let mut depth = 0;
    let end = after.find(|c| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        depth == 0 && (c == '}' || c == ';')
    });
    format!("{before}{}", without_test_modules(end.map_or("", |end| &after[end + 1..])))
}

/// An item without `pub` or `pub(…)` before it.
fn without_visibility(item: &str) -> &str {
    let Some(rest) = item.strip_prefix("pub") else { return item };
    let rest = rest.trim_start();
    let scope = rest.strip_prefix('(').and_then(|scope| scope.split_once(')'));
    scope.map_or(rest, |(_, rest)| rest.trim_start())
}

/// The circles between modules of these names and texts.
fn between(files: &[(&str, &str)]) -> Vec<String> {
    let at = |path: &str| path.split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect();
    let sources = files.iter().map(|(path, text)| (at(path), (*text).to_owned())).collect();
    circles(&sources).into_iter().map(|circle| circle.join(" → ")).collect()
}

#[test]
fn a_circle_is_found_by_whatever_path_it_goes() {
    let parent = ("", "mod a; mod b; pub use b::B;");
    for to_b in
        ["use super::b::B;", "use crate::{b::{B}};", "use super::B;", "fn f() { super::b::g() }", "use crate::b;"]
    {
        let found = between(&[parent, ("a", to_b), ("b", "use super::{a::A};")]);
        assert_eq!(found, ["a → b"], "{to_b}");
    }
    let three = between(&[("", ""), ("a", "use super::b::B;"), ("b", "use super::c::C;"), ("c", "use super::a::A;")]);
    assert_eq!(three, ["a → b → c"]);
    let parent = between(&[("x", "use child::C;\nstruct Own;"), ("x/child", "use super::Own;")]);
    assert_eq!(parent, ["x → x/child"]);
    let exported = between(&[("x", "pub use child::C;\nstruct Own(C);"), ("x/child", "use super::Own;")]);
    assert_eq!(exported, ["x → x/child"]);
}

#[test]
fn what_is_no_import_makes_no_circle() {
    let b = ("b", "use super::a::A;");
    for a in [
        "// use super::b::B;",
        "fn f() { \"use super::b::B;\"; '\"'; r#\"super::b\"#; }",
        "#[cfg(test)]\nmod tests { use super::b::B; fn f() {} }",
        "#[cfg(test)]\npub mod tests { use super::b::B; fn f() {} }",
        "#[cfg(test)]\npub(super) mod tests { use super::b::B; fn f() {} }",
        "#[cfg(test)]\npub(in crate::a) mod tests { use super::b::B; }",
        "use std::b::B;",
    ] {
        assert_eq!(between(&[("", "mod a; mod b;"), ("a", a), b]), [""; 0], "{a}");
    }
    // A parent that only re-exports what its children make of its own items.
    assert_eq!(between(&[("x", "pub use child::C;\nstruct Own;"), ("x/child", "use super::Own;")]), [""; 0]);
}
