// What the highlighter knows of languages: words, comments, strings.
const words = (text) => new Set(text.split(" "));
const COMMENT = (begin, end) => ({ begin, end, kind: "comment", escapes: false });
const STRING = (begin, end = begin) => ({ begin, end, kind: "string", escapes: true });

const NUMBER = [
  "number",
  /\b(?:0[xX][\da-fA-F_]+|0[bB][01_]+|\d[\d_]*(?:\.\d[\d_]*)?(?:[eE][+-]?\d+)?)\w{0,4}\b/y,
];
const CALL = ["call", /[\p{L}_$][\p{L}\d_$]{0,80}(?=\()/uy];
const WORD = ["word", /[\p{L}_$][\p{L}\d_$]*/uy];
const SPACE = ["", /\s+/y];
const QUOTED = ["string", /"(?:[^"\\]|\\.)*"?|'(?:[^'\\]|\\.)*'?/y];
const SLASHES = ["comment", /\/\/.*/y];
const HASHES = ["comment", /#.*/y];
const DASHES = ["comment", /--.*/y];
const AT = ["call", /@[\w.]+/y];

const CONSTANTS = words("true false null None True False nil undefined NaN Infinity nullptr");

function made(keywords, rules, spans = [], more = {}) {
  const base = {
    keywords: words(keywords),
    constants: CONSTANTS,
    spans,
    rules,
    ignoresCase: false,
  };
  return { ...base, ...more };
}

// A word that is called is a keyword first: `if(`, `while(`.
const called = (keywords) => [
  "call",
  new RegExp(`(?!(?:${keywords.split(" ").join("|")})\\b)${CALL[1].source}`, "yu"),
];
const C_LIKE = (keywords, ...more) =>
  made(
    keywords,
    [SPACE, SLASHES, ...more, QUOTED, NUMBER, called(keywords), WORD],
    [COMMENT("/*", "*/")],
  );

const PYTHON =
  "and as assert async await break case class continue def del elif else except finally for from global if import in is lambda match nonlocal not or pass raise return try while with yield self";
const SCRIPT =
  "abstract any as async await boolean break case catch class const continue debugger declare default delete do else enum export extends finally for from function get if implements import in instanceof interface keyof let namespace new number of private protected public readonly return set static string super switch this throw try type typeof unknown var void while with yield";
const C =
  "alignas auto bool break case char class concept const constexpr consteval continue co_await co_return co_yield decltype default delete do double else enum explicit extern final float for friend goto if inline int long mutable namespace new noexcept operator override private protected public register requires return short signed sizeof static struct switch template this throw try typedef typename union unsigned using virtual void volatile while";
const JAVA =
  "abstract as assert async await base bool boolean break byte case catch char class const continue decimal default delegate do double else enum event extends final finally float for foreach get if implements import in instanceof int interface internal is lock long namespace native new null object out override package params private protected public readonly record ref return sealed set short static string struct super switch synchronized this throw throws try typeof using var virtual void volatile when where while yield";
const GO =
  "break case chan const continue default defer else fallthrough for func go goto if import interface map package range return select struct switch type var bool byte error float32 float64 int int64 rune string uint";
const RUST =
  "as async await break const continue crate dyn else enum extern fn for if impl in let loop match mod move mut pub ref return self Self static struct super trait type unsafe use where while bool char f32 f64 i32 i64 str u8 u32 u64 usize";
const SWIFT =
  "as associatedtype break by case catch class companion continue data default defer deinit do else enum extension fallthrough for fun func guard if import in init inout interface internal is lateinit let nil object open override private protocol public repeat return sealed self static struct subscript super suspend switch throw throws try typealias val var when where while";
const SHELL =
  "case do done elif else esac exit export fi for function if in local readonly return set shift source then trap until while echo cd sudo";
const RUBY =
  "alias and begin break case class def do else elsif end ensure for if in module next not or redo require rescue retry return self super then unless until when while yield puts attr_accessor";
const PHP =
  "abstract array as break case catch class clone const continue declare default do echo else elseif enum extends final finally fn for foreach function global if implements include interface match namespace new private protected public require return static switch throw trait try use var while yield";
const LUA =
  "and break do else elseif end for function goto if in local not or repeat return then until while";
const SQL =
  "add all alter and as asc avg begin between by case commit count create cross default delete desc distinct drop else end exists foreign from full group having if in index inner insert into is join key left like limit max min not null on or order outer over partition primary references right rollback select set sum table then union unique update using values view when where with";

const python = made(
  PYTHON,
  [SPACE, HASHES, ["string", /[rRbBfFuU]{1,2}(?="|')/y], QUOTED, NUMBER, AT, called(PYTHON), WORD],
  [STRING('"""'), STRING("'''")],
);
const script = made(
  SCRIPT,
  [SPACE, SLASHES, QUOTED, NUMBER, AT, called(SCRIPT), WORD],
  [COMMENT("/*", "*/"), STRING("`")],
);
const c = C_LIKE(C, ["call", /^\s*#\s*\w+/y]);
const shell = made(SHELL, [
  SPACE,
  ["comment", /(?<![^\s])#.*/y],
  ["call", /\$\{?[\w@#?*!-]+\}?/y],
  ["string", /"(?:[^"\\]|\\.)*"?|'[^']*'?/y],
  ["number", /(?<=\s)(?:--?[\w-]+|\d[\d.]*(?![\w-]))/y],
  ["", /[\w./-]+(?=[-.\/])/y],
  WORD,
]);
const json = made("", [
  SPACE,
  ["call", /"(?:[^"\\]|\\.)*"(?=\s*:)/y],
  QUOTED,
  NUMBER,
  SLASHES,
  WORD,
]);
const yaml = made("", [
  SPACE,
  ["comment", /(?<![^\s])#.*/y],
  ["call", /[\w.\/-]+(?=\s*:(?:\s|$))/y],
  QUOTED,
  NUMBER,
  WORD,
]);
const toml = made(
  "",
  [
    SPACE,
    ["comment", /[#;].*/y],
    ["keyword", /^\s*\[.*\]/y],
    ["call", /[\w.-]+(?=\s*=)/y],
    QUOTED,
    NUMBER,
    WORD,
  ],
  [STRING('"""'), STRING("'''")],
);
const markup = made(
  "",
  [
    ["keyword", /<\/?[\w:-]+|\/?>/y],
    ["call", /[\w:@.-]+(?==["'])/y],
    ["string", /(?<==)(?:"[^"]*"?|'[^']*'?)/y],
    ["number", /&\w+;/y],
    ["", /[^<>&=\s\w]+|\s+|\w+/y],
  ],
  [COMMENT("<!--", "-->")],
);
const css = made(
  "",
  [
    SPACE,
    ["keyword", /@[\w-]+/y],
    ["call", /[\w-]+(?=\s*:\s)/y],
    QUOTED,
    ["number", /#[\da-fA-F]{3,8}\b|-?\d+(?:\.\d+)?(?:%|[a-z]{1,4})?/y],
    ["", /[\w-]+/y],
  ],
  [COMMENT("/*", "*/")],
);
const sql = made(SQL, [SPACE, DASHES, QUOTED, NUMBER, WORD], [COMMENT("/*", "*/")], {
  ignoresCase: true,
});
const diff = made("", [
  ["keyword", /^@@.*/y],
  ["added", /^\+.*/y],
  ["removed", /^-.*/y],
  ["", /.+/y],
]);
const ruby = made(RUBY, [
  SPACE,
  HASHES,
  QUOTED,
  ["number", /:\w+/y],
  NUMBER,
  AT,
  called(RUBY),
  WORD,
]);
const php = made(
  PHP,
  [SPACE, SLASHES, HASHES, QUOTED, NUMBER, called(PHP), WORD],
  [COMMENT("/*", "*/")],
);
const lua = made(LUA, [SPACE, DASHES, QUOTED, NUMBER, called(LUA), WORD], [COMMENT("--[[", "]]")]);
const java = C_LIKE(JAVA, AT);
const go = made(
  GO,
  [SPACE, SLASHES, QUOTED, NUMBER, called(GO), WORD],
  [COMMENT("/*", "*/"), STRING("`")],
);
const rust = made(
  RUST,
  [
    SPACE,
    SLASHES,
    ["call", /\w+!/y],
    ["number", /'[a-z_]\w*(?!')/y],
    QUOTED,
    NUMBER,
    called(RUST),
    WORD,
  ],
  [COMMENT("/*", "*/")],
);
const swift = C_LIKE(SWIFT, AT);
const make = made("", [SPACE, HASHES, ["call", /^[\w.%/-]+(?=\s*:)|\$\([^)]*\)/y], QUOTED, WORD]);

const NAMES = [
  [python, "python py python3 pyi"],
  [script, "javascript js jsx mjs typescript ts tsx"],
  [c, "c h cpp c++ cc hpp cuda objc arduino"],
  [java, "java cs csharp c# scala dart groovy"],
  [go, "go golang"],
  [rust, "rust rs"],
  [swift, "swift kotlin kt"],
  [shell, "bash sh shell zsh console fish dockerfile docker powershell"],
  [json, "json jsonc json5 jsonl"],
  [yaml, "yaml yml"],
  [toml, "toml ini cfg conf env properties"],
  [markup, "html xml svg vue svelte xhtml"],
  [css, "css scss less"],
  [sql, "sql postgresql mysql sqlite"],
  [diff, "diff patch"],
  [ruby, "ruby rb elixir"],
  [php, "php"],
  [lua, "lua"],
  [make, "makefile make cmake"],
];

export const LANGUAGES = new Map(
  NAMES.flatMap(([language, names]) => names.split(" ").map((name) => [name, language])),
);
