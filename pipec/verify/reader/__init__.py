"""PTX text to a network: text, control flow, values in registers, processes; each folder imports only those before it."""
