"""E103x: `pipec build`, kernels compiled ahead of time."""

from pipec.diag.message import Message


class FormsDiffer(Message):
    """A bundle has one function for each kernel, whichever variant (target, values of tuned parameters) it launches, so all variants must
    take the same arguments. Here an element type or a size of an argument depends on the variant."""

    code = "E1030"
    title = "with {values}, `{kernel}` takes different arguments than in its first variant"
    help = "set the parameters that the arguments depend on with `-D NAME=VALUE`, and build a bundle for each"
    kernel: str
    values: str


class TooManyPoints(Message):
    """Sizes given with `--shape` are combined: `--shape M=16,64 N=512,1024` are four combinations, and all candidates are
    predicted for each."""

    code = "E1031"
    title = "`--shape` asks for {count} combinations of sizes of `{kernel}`, more than {most}"
    help = "name fewer sizes: between two of them, the variant of the nearer one is used"
    kernel: str
    count: int
    most: int


class BadSizes(Message):
    """`pipec build --shape M=16,64,256 N=4096` names the sizes that variants are chosen for; a launch takes the variant of the nearest
    ones."""

    code = "E1032"
    title = "`--shape {name}={value}` is not a list of sizes"
    help = "write whole numbers from 1 to 2147483647, separated by commas"
    name: str
    value: str
