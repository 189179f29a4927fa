"""What this process may use and how it uses it: processors, cgroups, memory, the C allocator."""
