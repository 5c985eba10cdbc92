"""Products that threads submit to the tensor cores, and waits for them."""

from collections.abc import Iterator

from pipec.kir.plan.types import MmaWait
from pipec.predict.following.events import Busy, Engine, Event, Why, because, later_of
from pipec.predict.following.tensor_cores import Product
from pipec.predict.following.threads import Threads
from pipec.predict.following.uses import Stretch, Use
from pipec.sema import tree


def multiply(threads: Threads, operation: tree.Mma | tree.RegisterMma, cycles: float, first: float) -> None:
    around = threads.around
    cycles *= threads.part * around.conditions.stalled
    begin = threads.now.later(because(Why.LATENCY, threads.name), first)
    if isinstance(operation, tree.RegisterMma):
        _share(threads, begin, cycles)
        return
    # A product that directly follows another finds the pipeline filled.
    begin = later_of(begin, around.products)
    around.products = begin.later(because(Why.MULTIPLY, threads.name), cycles)
    threads.engine(Engine.PRODUCTS, threads.name, begin, around.products, cycles)
    for tile in (operation.accumulator, operation.a, operation.b, *operation.scales):
        threads.lands(tile.handle, around.products)


def _share(threads: Threads, begin: Event, cycles: float) -> None:
    product = Product(begin, cycles, because(Why.MULTIPLY, threads.name))
    threads.products.append(product)
    threads.around.tensor_cores.multiply(threads, product)
    threads.around.busy[Busy(Engine.PRODUCTS)] += cycles


def await_products(threads: Threads, wait: MmaWait) -> "Iterator[Use | float | None]":
    """Waits for wgmma's products, and releases the late stage."""
    cores, ended = threads.around.tensor_cores, len(threads.products) - wait.pending
    if ended > 0:
        last = threads.products[ended - 1]
        while last.end is None:
            at = cores.ends(last)
            yield at
            cores.until(at)
        for one in threads.products[:ended] if threads.around.drawn else ():
            assert one.end is not None
            threads.around.stretches.append(
                Stretch(threads.block.number, Engine.PRODUCTS, threads.name, one.since.time, one.end.time)
            )
        threads.wait(last.end, "products")
        del threads.products[:ended]
    if wait.gives_back:
        threads.give_back()
