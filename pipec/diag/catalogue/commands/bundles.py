"""E103x: `pipec build`, kernels compiled ahead of time."""

from pipec.diag.message import Message


class FormsDiffer(Message):
    """A bundle has one function for each kernel, whichever of its forms (targets, values of tuned parameters) it launches: all of them
    take the same arguments. Here an element type or a size of an argument depends on what is chosen."""

    code = "E1030"
    title = "the arguments of `{kernel}` with {values} are others than those of its first form"
    help = "set the parameters that the arguments depend on with `-D NAME=VALUE`, and build a bundle for each"
    kernel: str
    values: str


class TooManyPoints(Message):
    """Sizes given with `--shape` are combined: `--shape M=16,64 N=512,1024` are four points, for each of which all candidates are
    predicted."""

    code = "E1031"
    title = "`--shape` asks for {count} combinations of sizes of `{kernel}`, more than {most}"
    help = "name fewer sizes: between two of them the nearer one's form is taken"
    kernel: str
    count: int
    most: int


class BadSizes(Message):
    """`pipec build --shape M=16,64,256 N=4096` names sizes that forms are chosen for; a launch takes the form of the nearest ones."""

    code = "E1032"
    title = "`--shape {name}={value}` is no list of sizes"
    help = "write whole numbers from 1 to 2147483647, with commas between"
    name: str
    value: str
