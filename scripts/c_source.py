"""c_source.py -- just enough of C to see includes, declarations, definitions and type names.

Used by check_rooms.py and check_walk.py. Not a compiler: macros are not expanded, so what a macro
declares is not seen here (check_rooms.py --build sees it in the objects).
"""
import bisect
import re

SUFFIXES = (".c", ".h", ".cu", ".cuh", ".cpp", ".hpp", ".def", ".inc")
HEADERS = (".h", ".cuh", ".hpp")

# The order matters: an include's <a//b.h> is a name and no comment, a quote in a comment opens no string.
_COMMENT = r"/\*.*?(?:\*/|\Z)|//(?:\\\n|[^\n])*"
_GAP = r"(?:[ \t\f\v]|\\\n|%s)*" % _COMMENT
_TOKEN = re.compile(
    r"(?P<include>(?:\#|%%:|\?\?=)%s(?:include_next|include|import)\b%s(?P<target><[^>\n]*>|\"[^\"\n]*\"|(?:\\\n|[^\n])*))"
    r"|(?P<comment>%s)"
    r"|(?P<raw>\bu?8?R\"(?P<fence>[^()\\\s]{0,16})\(.*?\)(?P=fence)\")"
    r"|(?P<string>\"(?:\\.|[^\"\\\n])*\")"
    r"|(?P<char>(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])*')" % (_GAP, _GAP, _COMMENT), re.S)


def _blank(text):
    return re.sub(r"[^\n]", " ", text)


class Source:
    """A file's text in three forms, all with the line numbers of the file.

    text: as it is; code: without comments and with empty strings; includes: [(line, target)], the
    target with its brackets or quotes, or the name of a macro.
    """

    def __init__(self, path, text):
        self.path = path
        self.text = text
        self._starts = [0] + [m.end() for m in re.finditer("\n", text)]
        self.includes = []
        out, at = [], 0
        for m in _TOKEN.finditer(text):
            out.append(text[at:m.start()])
            at = m.end()
            token = m.group()
            if m.group("include"):
                first = "".join(out).rpartition("\n")[2]     # only spaces may stand before the #
                if not first.strip():
                    self.includes.append((self.line(m.start()), m.group("target").strip()))
                out.append(_blank(token))
            elif m.group("string"):
                out.append('"' + _blank(token[1:-1]) + '"')
            elif m.group("raw"):
                out.append('"' + _blank(token[1:-1]) + '"')
            elif m.group("char"):
                out.append("'" + _blank(token[1:-1]) + "'")
            else:
                out.append(_blank(token))
        out.append(text[at:])
        self.code = "".join(out)

    def line(self, offset):
        return bisect.bisect_right(self._starts, offset)

    def declarations(self):
        """Yields (kind, name, line, text) of what stands at file level, and of declarations in functions.

        kind: "define" a function with its body; "declare" a function without; "extern" a variable, or
        anything in a function's body that says extern; "hidden" a function that only its file sees.
        """
        for text, start, body, inside in _statements(self.code):
            yield from self._statement(text, start, body, inside)

    def _statement(self, text, start, body, hidden_space):
        linkage = re.match(r"\s*extern\s*\"\s*\"", text)
        if linkage:
            start, text = start + linkage.end(), text[linkage.end():]
        start += len(text) - len(text.lstrip())
        text = text.strip()
        line = self.line(start)
        name = _function_name(text)
        hidden = hidden_space or re.search(r"\bstatic\b", text.split("(")[0])
        if body is not None:
            if name:
                yield ("hidden" if hidden else "define"), name, line, text
                yield from self._in_body(body)
            return
        if re.match(r"(typedef|using|template|friend|static_assert|_Static_assert|namespace)\b", text):
            return
        if re.search(r"\bextern\b", text) and "__shared__" not in text and not name and "=" not in text:
            found = re.search(r"(\w+)\s*(?:\[[^\]]*\]\s*)*$", text)
            yield "extern", found.group(1) if found else text, line, text
        elif name and not hidden:
            yield "declare", name, line, text

    def _in_body(self, body):
        start, end = body
        code = self.code[start:end]
        for m in re.finditer(r"(?<=[{};])\s*(?:(?P<extern>extern\b[^;{}]*)|(?P<call>[A-Za-z_][^;{}=]*\)));", code):
            text = (m.group("extern") or m.group("call")).strip()
            line = self.line(start + m.start("extern" if m.group("extern") else "call"))
            if m.group("extern"):
                if "__shared__" not in text:
                    yield "extern", _function_name(text) or text.split()[-1].strip("[]"), line, text
            elif self.path.endswith(".c"):       # C++ has `dim3 grid(n);` there
                if _is_prototype(text):
                    yield "declare", _function_name(text), line, text

    def macros_that_declare(self):
        """Yields the line of every macro whose text declares a function or an extern variable."""
        for m in re.finditer(r"^[ \t]*(?:#|%:)[ \t]*define[ \t]+\w+(?:\([^()]*\))?(?P<body>(?:\\\n|[^\n])*)", self.code, re.M):
            body = m.group("body").replace("\\\n", "  ")
            if "__shared__" in body:
                continue
            statements = re.findall("([^;{}]*);", body) if self.path.endswith(".c") else []   # C++ has `dim3 grid(n);`
            if re.search(r"\bextern\b(?!\s*\")", body) or any(_is_prototype(statement) for statement in statements):
                yield self.line(m.start())

    def types(self):
        """Yields (name, line) of every struct, union, enum, class or typedef that is defined here."""
        code = re.sub(r"^[ \t]*#(?:\\\n|[^\n])*", lambda m: _blank(m.group()), self.code, flags=re.M)
        for m in re.finditer(r"\b(?:struct|union|enum|class)\s+(?:[A-Za-z_]\w*\s*\([^()]*(?:\([^()]*\))*[^()]*\)\s*)?([A-Za-z_]\w*)\s*(?::[^;{}()]*)?\{", code):
            yield m.group(1), self.line(m.start(1))
        for m in re.finditer(r"\busing\s+([A-Za-z_]\w*)\s*=", code):
            yield m.group(1), self.line(m.start(1))
        for m in re.finditer(r"\btypedef\b", code):
            end, depth = m.end(), 0
            while end < len(code) and (depth or code[end] != ";"):
                depth += (code[end] == "{") - (code[end] == "}")
                end += 1
            text = code[m.end():end]
            flat = re.sub(r"\{.*\}", "{}", text, flags=re.S)
            name = re.search(r"\(\s*\*\s*([A-Za-z_]\w*)\s*\)\s*\(", flat) or \
                re.search(r"([A-Za-z_]\w*)\s*(?:\[[^\]]*\]\s*)*(?:\([^()]*\)\s*)?$", flat)
            if not name:
                continue
            forward = re.match(r"\s*(?:struct|union|enum|class)\s+(\w+)\s+(\w+)\s*$", flat)
            if forward and forward.group(1) == forward.group(2):
                continue                          # only says that there is such a type
            yield name.group(1), self.line(m.end() + text.rfind(name.group(1)))


_NO_TYPE = {"return", "else", "do", "goto", "case", "sizeof", "typedef", "static", "asm", "__asm__"}    # then it is no declaration
_NO_NAME = {"if", "for", "while", "switch", "return", "sizeof", "defined", "typeof", "__typeof__", "__attribute__",
            "alignas", "_Alignas", "__align__", "__launch_bounds__", "_Static_assert", "static_assert", "asm", "__asm__",
            "__declspec", "decltype"}


def _is_prototype(text):
    """Whether a statement among others, as in a function, declares a function."""
    text = re.sub(r"\s*##\s*", "", text)
    head = text.split("(")[0]
    return bool(re.fullmatch(r"[\w\s*]+", head) and text.rstrip().endswith(")") and not _NO_TYPE & set(head.split())
                and _function_name(text))


def _function_name(text):
    """The function that a file-level statement declares or defines; None if it is none."""
    if re.match(r"\s*(typedef|using|_Static_assert|static_assert)\b", text):
        return None
    text = re.sub(r"\b(?:__attribute__|__launch_bounds__|alignas|_Alignas|__align__|__declspec|decltype|typeof|__typeof__)"
                  r"\s*\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)", " type_ ", text)
    text = re.sub(r"\[\[.*?\]\]", " ", text)
    text = re.sub(r"\btemplate\s*<[^;{}]*?>\s*(?=[A-Za-z_])", "", text)
    before, _, after = text.partition("(")
    if not after or re.search(r"[=;{}]", before):
        return None
    before = re.sub(r"\b(?:extern|static|inline|const|volatile|type_)\b", " ", before)
    plain = re.search(r"[\w>*&]\s*[\s*&]([A-Za-z_]\w*)(?:\s*<[^()]*>)?\s*$", before)
    if plain:                                     # int name(...
        return None if plain.group(1) in _NO_NAME else plain.group(1)
    held = re.match(r"\s*([A-Za-z_]\w*)\s*\)\s*\(|\s*\*+\s*([A-Za-z_]\w*)\s*\(", after)
    if held and re.search(r"\w", before):         # int (name)(...   or   int (*name(int))(...
        return held.group(1) or held.group(2)
    return None                                   # a macro's call, or int (*pointer)(int)


def _statements(code):
    """Yields (text, start, body, hidden) of each statement at file level.

    body is None for one that ends with ;, else where its braces open and close. What extern "C" { } and
    namespaces hold is at file level too; hidden says that it is in a namespace without a name.
    """
    braces = []                                   # "C": see-through; "H": the same, hidden; "B": a body
    saved = []                                    # braces at each #if: every branch starts from there
    text, start, opened = "", 0, 0
    at = 0
    for m in re.finditer(r"^[ \t]*(?:#|%:)(?:\\\n|[^\n])*|[{};]", code, re.M):
        token = m.group().strip()
        in_body = "B" in braces
        if not in_body:
            text += code[at:m.start()]
        if token[0] in "#%":
            word = re.match(r"(?:#|%:)\s*(\w*)", token).group(1)
            if word.startswith("if"):
                saved.append(list(braces))
            elif word in ("else", "elif", "elifdef", "elifndef") and saved:
                braces[:] = saved[-1]
                if "B" not in braces and in_body:
                    text = ""
            elif word == "endif" and saved:
                saved.pop()
            if "B" not in braces:
                text += " " * (m.end() - m.start())
        elif token == "{":
            if in_body:
                braces.append("B")
            elif re.search(r"\bextern\s*\"\s*\"\s*$", text) or re.search(r"\bnamespace\b[^;=()]*$", text):
                named = "extern" in text or re.search(r"\bnamespace\s+\w", text)
                braces.append("C" if named else "H")
                text = ""
            else:
                opened = m.start()
                braces.append("B")
        elif token == "}":
            if braces:
                braces.pop()
            if in_body and "B" not in braces:
                if _function_name(text) and not re.match(r"\s*(?:typedef\s+)?(?:struct|union|enum|class)\s*\w*\s*$", text) \
                        and "=" not in re.sub(r"\([^()]*\)", "", text):
                    yield text, start, (opened, m.end()), "H" in braces
                    text = ""
                else:
                    text += " " * (m.end() - opened)
            elif not in_body:
                text = ""
        elif not in_body:
            if text.strip():
                yield text, start, None, "H" in braces
            text = ""
        at = m.end()
        if not text.strip() and "B" not in braces:
            text, start = "", m.end()
