"""PTX text to a network: text, control flow, register values, processes; each folder imports only those before it."""
