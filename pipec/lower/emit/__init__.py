"""LLVM IR as text: instructions, arithmetic, element functions, accesses to memory, source lines."""
