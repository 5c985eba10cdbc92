"""Debug metadata: the source line of every instruction. LLVM prints it as `.file` and `.loc`, with no debug sections."""

from pipec.source import Source, Span


class Metadata:
    """The numbered metadata nodes of one module."""

    def __init__(self, source: Source) -> None:
        self.nodes: list[str] = []
        self._locations: dict[tuple[int, int, int], int] = {}
        version = [
            self.node(f'!{{i32 2, !"{name}", i32 {value}}}') for name, value in (("Dwarf Version", 2), ("Debug Info Version", 3))
        ]
        self._file = self.node(f'!DIFile(filename: "{file_name(source.name)}", directory: "")')
        self._unit = self.node(
            f'distinct !DICompileUnit(language: DW_LANG_C, file: !{self._file}, producer: "pipec", isOptimized: true, '
            "runtimeVersion: 0, emissionKind: DebugDirectivesOnly)"
        )
        self._signature = self.node("!DISubroutineType(types: !{})")
        self._no_unroll = self.node('!{!"llvm.loop.unroll.disable"}')
        self._header = [
            f"!llvm.module.flags = !{{{', '.join(f'!{number}' for number in version)}}}",
            f"!llvm.dbg.cu = !{{!{self._unit}}}",
        ]

    def node(self, text: str) -> int:
        self.nodes.append(text)
        return len(self.nodes) - 1

    def function(self, name: str, span: Span) -> int:
        line = span.shown_line
        return self.node(
            f'distinct !DISubprogram(name: "{name}", scope: !{self._file}, file: !{self._file}, line: {line}, '
            f"type: !{self._signature}, scopeLine: {line}, spFlags: DISPFlagDefinition | DISPFlagOptimized, unit: !{self._unit})"
        )

    def location(self, span: Span, function: int) -> str:
        """The suffix of an instruction with this source location."""
        key = (span.shown_line, span.shown_column, function)
        number = self._locations.get(key)
        if number is None:
            number = self.node(f"!DILocation(line: {key[0]}, column: {key[1]}, scope: !{function})")
            self._locations[key] = number
        return f", !dbg !{number}"

    def rolled_loop(self) -> str:
        """The suffix of a loop's back edge that prevents unrolling by LLVM."""
        number = len(self.nodes)
        self.node(f"distinct !{{!{number}, !{self._no_unroll}}}")
        return f", !llvm.loop !{number}"

    def text(self) -> list[str]:
        return [*self._header, *(f"!{number} = {node}" for number, node in enumerate(self.nodes))]


def file_name(name: str) -> str:
    """Restricts a name to what `.file` can contain: ptxas has no escapes for it."""
    return "".join(c if " " <= c <= "~" and c != '"' else "?" for c in name.replace("\\", "/"))
