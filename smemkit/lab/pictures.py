def bars(e):
    pass


bank_chart = padding_chart = reverse_chart = carveout_chart = hierarchy_chart = coalescing_chart = (
    transfer_chart
) = bars
occupancy_chart = parallelism_chart = divergence_chart = precision_chart = async_chart = barrier_chart = (
    first_chart
) = reduction_chart = tree_chart = tiling_chart = matmul_chart = speedup_chart = mistake_chart = bars
