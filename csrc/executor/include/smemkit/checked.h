/* The dialect's reports to the checker. All are empty in a plain build. */
#ifndef SMEMKIT_CHECKED_H
#define SMEMKIT_CHECKED_H

namespace smemkit
{

/* Reports that the kernel's call at `pc` is about to access `bytes` bytes; `read_only`: in memory that the kernel
 * must not write (ld.global.nc) */
SMEMKIT_INLINE void report_read(const volatile void *address, unsigned bytes, const void *pc,
                                bool read_only = false)
{
#ifdef SMEMKIT_CHECKED
    smemkit_checked_access(address, bytes, read_only ? 2 : 0, pc);
#else
    (void)address, (void)bytes, (void)pc, (void)read_only;
#endif
}
SMEMKIT_INLINE void report_write(const volatile void *address, unsigned bytes, const void *pc)
{
#ifdef SMEMKIT_CHECKED
    smemkit_checked_access(address, bytes, 1, pc);
#else
    (void)address, (void)bytes, (void)pc;
#endif
}
/* That a store by an instruction of its own is about to begin or end the mbarrier at `address` */
SMEMKIT_INLINE void report_object(const volatile void *address, const void *pc)
{
#ifdef SMEMKIT_CHECKED
    smemkit_checked_access(address, 8, 3, pc);
#else
    (void)address, (void)pc;
#endif
}

/* The access itself, after it has been reported. A struct is copied byte by byte: its copy constructor, or memcpy,
 * would report it again. */
template <class T>
SMEMKIT_INLINE void copy_unreported(T *to, const T *from)
{
    for (unsigned i = 0; i < sizeof(T); i++)
        ((unsigned char *)to)[i] = ((const unsigned char *)from)[i];
}
template <class T>
SMEMKIT_INLINE T load(const T *address)
{
#ifdef SMEMKIT_CHECKED
    if constexpr (std::is_class_v<T>) {
        T value;
        copy_unreported(&value, address);
        return value;
    }
#endif
    return *address;
}
template <class T>
SMEMKIT_INLINE void store(T *address, const T &value)
{
#ifdef SMEMKIT_CHECKED
    if constexpr (std::is_class_v<T>) {
        copy_unreported(address, &value);
        return;
    }
#endif
    *address = value;
}

/* Around an atomic access */
SMEMKIT_INLINE void before_atomic(const volatile void *address, unsigned bytes, const void *pc,
                                  bool is_read = true)
{
#ifdef SMEMKIT_CHECKED
    smemkit_checked_atomic(address, bytes, is_read, pc);
#else
    (void)address, (void)bytes, (void)pc, (void)is_read;
#endif
}
SMEMKIT_INLINE void after_atomic(const volatile void *address, unsigned bytes, bool wrote, int order)
{
#ifdef SMEMKIT_CHECKED
    smemkit_checked_atomic_done(address, bytes, wrote, order);
#else
    (void)address, (void)bytes, (void)wrote, (void)order;
#endif
}

/* In place of an atomic access that the thread has already made since it last synchronised. */
SMEMKIT_INLINE void try_again(const void *pc)
{
#ifdef SMEMKIT_CHECKED
    smemkit_checked_try_again(pc);
#else
    (void)pc;
#endif
}

/* scope: 1 block, 2 device, 3 system */
SMEMKIT_INLINE void fence(int scope)
{
#ifdef SMEMKIT_CHECKED
    smemkit_checked_fence(scope);
#else
    (void)scope;
#endif
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    smemkit_tick(0);
}

/* After extern __shared__ T name[]; */
template <class T>
SMEMKIT_INLINE void declare_dynamic_shared([[maybe_unused]] const char *name)
{
#ifdef SMEMKIT_CHECKED
    smemkit_checked_dynamic(name, sizeof(T));
#endif
}

} // namespace smemkit

#endif
