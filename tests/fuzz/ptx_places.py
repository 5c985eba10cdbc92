"""Where a loop of a random PTX kernel stands on a ring: counted, or computed from the turn."""

from dataclasses import dataclass

from fuzz.ptx_writer import Text


@dataclass
class Place:
    """Registers of a loop: the number of the turn, stage, phase, and the address of the stage's barriers."""

    turn: str
    stage: str
    phase: str
    address: str
    way: str

    def make(self, text: Text, stages: int, base: str) -> None:
        if self.way == "divide":
            text.add(f"rem.u32 {self.stage}, {self.turn}, {stages};")
            text.add(f"div.u32 {self.phase}, {self.turn}, {stages};", f"and.b32 {self.phase}, {self.phase}, 1;")
        elif self.way == "bits" and stages in (1, 2, 4):
            text.add(f"and.b32 {self.stage}, {self.turn}, {stages - 1};")
            text.add(f"bfe.u32 {self.phase}, {self.turn}, {stages.bit_length() - 1}, 1;")
        text.add(f"mad.lo.u32 {self.address}, {self.stage}, 8, {base};")

    def step(self, text: Text, stages: int) -> None:
        """The next stage, and the other phase after the last one, where these are counted."""
        if self.way == "divide" or self.way == "bits" and stages in (1, 2, 4):
            return
        flag = text.register(1)
        text.add(f"add.u32 {self.stage}, {self.stage}, 1;", f"setp.eq.u32 {flag}, {self.stage}, {stages};")
        if text.draw.random() < 0.5:
            text.add(f"@{flag} mov.u32 {self.stage}, 0;", f"@{flag} xor.b32 {self.phase}, {self.phase}, 1;")
            return
        turned = text.register()
        text.add(f"selp.u32 {self.stage}, 0, {self.stage}, {flag};", f"xor.b32 {turned}, {self.phase}, 1;")
        text.add(f"selp.u32 {self.phase}, {turned}, {self.phase}, {flag};")
