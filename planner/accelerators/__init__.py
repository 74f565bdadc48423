"""GPU products, the memory their driver reports, node labels, instance types and partitions → ``Accelerator``."""
