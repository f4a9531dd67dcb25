/* The intrinsics of clusters. In a launch without clusters each block is one of its own. */
#ifndef SMEMKIT_CLUSTER_H
#define SMEMKIT_CLUSTER_H

SMEMKIT_INLINE void __cluster_barrier_arrive(SMEMKIT_HERE)
{
    smemkit_cluster_arrive(0, 1, file, line);
}
SMEMKIT_INLINE void __cluster_barrier_arrive_relaxed(SMEMKIT_HERE)
{
    smemkit_cluster_arrive(0, 0, file, line);
}
SMEMKIT_INLINE void __cluster_barrier_wait(SMEMKIT_HERE)
{
    smemkit_cluster_wait(0, file, line);
}
SMEMKIT_INLINE void *__cluster_map_shared_rank(const void *address, unsigned rank, SMEMKIT_HERE)
{
    return smemkit_cluster_map(address, rank, file, line);
}
SMEMKIT_INLINE unsigned __cluster_query_shared_rank(const void *address)
{
    return smemkit_cluster_rank_of(address);
}
SMEMKIT_INLINE unsigned __isClusterShared(const void *address)
{
    return smemkit_is_cluster_shared(address);
}
SMEMKIT_INLINE dim3 __clusterDim()
{
    return {smemkit_cluster_dim(0), smemkit_cluster_dim(1), smemkit_cluster_dim(2)};
}
SMEMKIT_INLINE unsigned __clusterSizeInBlocks()
{
    return smemkit_cluster_dim(0) * smemkit_cluster_dim(1) * smemkit_cluster_dim(2);
}
SMEMKIT_INLINE dim3 __clusterGridDimInClusters()
{
    return {gridDim.x / smemkit_cluster_dim(0), gridDim.y / smemkit_cluster_dim(1),
            gridDim.z / smemkit_cluster_dim(2)};
}
SMEMKIT_INLINE dim3 __clusterIdx()
{
    return {blockIdx.x / smemkit_cluster_dim(0), blockIdx.y / smemkit_cluster_dim(1),
            blockIdx.z / smemkit_cluster_dim(2)};
}
SMEMKIT_INLINE dim3 __clusterRelativeBlockIdx()
{
    return {blockIdx.x % smemkit_cluster_dim(0), blockIdx.y % smemkit_cluster_dim(1),
            blockIdx.z % smemkit_cluster_dim(2)};
}
SMEMKIT_INLINE unsigned __clusterRelativeBlockRank()
{
    return smemkit_cluster_rank();
}

#endif
