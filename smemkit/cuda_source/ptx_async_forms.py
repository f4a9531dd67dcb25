"""The forms of the asynchronous instructions, as in ptx_instructions.py: wgmma, mbarrier, bulk copies, fences."""

__all__ = ["ASYNC_FORMS"]

_FENCE_SCOPES = {"cta": 1, "cluster|gpu": 2, "sys": 3}  # as the dialect's fence numbers them

# header → name and modifiers; operands; C++
ASYNC_FORMS = {
    "wgmma": [
        ("setmaxnreg inc sync aligned u32", "a", "@set_registers($a, true)"),
        ("setmaxnreg dec sync aligned u32", "a", "@set_registers($a, false)"),
        ("wgmma fence sync aligned", "", "@wgmma_fence()"),
        ("wgmma commit_group sync aligned", "", "@wgmma_commit()"),
        ("wgmma wait_group sync aligned", "a", "@wgmma_wait($a)"),
        (
            "wgmma mma_async sync aligned shape=WGMMA dt=f16|f32 at=f16|bf16 bt=f16|bf16",
            "{&d}, a, b, c, e, f, g, h",
            "@wgmma<@$shape, @$dt, @$at, @$bt>($d, false, $a, $b, $c, $e, $f, $g, $h)",
        ),
        (
            "wgmma mma_async sync aligned shape=WGMMA dt=f16|f32 at=f16|bf16 bt=f16|bf16",
            "{&d}, {&a}, b, c, e, f, h",
            "@wgmma<@$shape, @$dt, @$at, @$bt>($d, false, $a, $a_at, $b, $c, $e, $f, $h)",
        ),
        (
            "wgmma mma_async sync aligned shape=WGMMA dt=f16|f32 at=tf32|e4m3|e5m2 bt=tf32|e4m3|e5m2",
            "{&d}, a, b, c, e, f",
            "@wgmma<@$shape, @$dt, @$at, @$bt>($d, false, $a, $b, $c, $e, $f, 0, 0)",
        ),
        (
            "wgmma mma_async sync aligned shape=WGMMA dt=f16|f32 at=tf32|e4m3|e5m2 bt=tf32|e4m3|e5m2",
            "{&d}, {&a}, b, c, e, f",
            "@wgmma<@$shape, @$dt, @$at, @$bt>($d, false, $a, $a_at, $b, $c, $e, $f, 0)",
        ),
        (
            "wgmma mma_async sync aligned shape=WGMMA satfinite? dt=s32 at=s8|u8 bt=s8|u8 satfinite?",
            "{&d}, a, b, c",
            "@wgmma<@$shape, @$dt, @$at, @$bt>($d, $flag_satfinite, $a, $b, $c, 1, 1, 0, 0)",
        ),
        (
            "wgmma mma_async sync aligned shape=WGMMA satfinite? dt=s32 at=s8|u8 bt=s8|u8 satfinite?",
            "{&d}, {&a}, b, c",
            "@wgmma<@$shape, @$dt, @$at, @$bt>($d, $flag_satfinite, $a, $a_at, $b, $c, 1, 1, 0)",
        ),
    ],
    "mbarrier": [
        ("mbarrier init space=SHARED? b64", "[a], b", "@mbarrier_init($a, $b)"),
        ("mbarrier inval space=SHARED? b64", "[a]", "@mbarrier_inval($a)"),
        (
            "mbarrier arrive ARRIVAL? SCOPE? noComplete? ARRIVAL? SCOPE? space=CLUSTER? b64",
            "d, [a], b?1",
            "$d = @mbarrier_arrive($a, $b, 0, $flag_noComplete, $flag_relaxed, $flag_cta)",
        ),
        (
            "mbarrier arrive expect_tx ARRIVAL? SCOPE? space=CLUSTER? b64",
            "d, [a], b",
            "$d = @mbarrier_arrive_expect($a, $b, $flag_relaxed, $flag_cta)",
        ),
        ("mbarrier expect_tx relaxed? SCOPE? space=CLUSTER? b64", "[a], b", "@mbarrier_expect($a, $b)"),
        ("mbarrier complete_tx relaxed? SCOPE? space=CLUSTER? b64", "[a], b", "@mbarrier_complete($a, $b)"),
        (
            "mbarrier arrive_drop ARRIVAL? SCOPE? noComplete? ARRIVAL? SCOPE? space=CLUSTER? b64",
            "d, [a], b?1",
            "$d = @mbarrier_arrive($a, $b, $b, $flag_noComplete, $flag_relaxed, $flag_cta)",
        ),
        (
            "mbarrier op=test_wait|try_wait WAIT? SCOPE? space=SHARED? b64",
            "d, [a], b, e?0",
            "$d = @mbarrier_test_wait($a, $b, smemkit::wait_order($flag_relaxed, $flag_cta))",
        ),
        (
            "mbarrier op=test_wait|try_wait parity WAIT? SCOPE? space=SHARED? b64",
            "d, [a], b, e?0",
            "$d = @mbarrier_test_wait_parity($a, $b, smemkit::wait_order($flag_relaxed, $flag_cta))",
        ),
        ("mbarrier pending_count b64", "d, a", "$d = @mbarrier_pending_count($a)"),
        ("cp async mbarrier arrive noinc? space=SHARED? b64", "[a]", "@copy_async_arrive($a, $flag_noinc)"),
    ],
    "bulk": [
        (
            "cp async bulk WINDOW global TX L2::cache_hint?",
            "[d:shared], [a:global], b, [c:shared], e?0",
            "@copy_bulk($d, $a, false, $b, $c)",
        ),
        (
            "cp async bulk shared::cluster global TX multicast::cluster L2::cache_hint?",
            "[d:shared], [a:global], b, [c:shared], f, e?0",
            "@copy_bulk_multicast($d, $a, $b, $c, $f)",
        ),
        (
            "cp async bulk shared::cluster shared::cta TX",
            "[d:shared], [a:shared], b, [c:shared]",
            "@copy_bulk($d, $a, true, $b, $c)",
        ),
        (
            "cp async bulk global shared::cta bulk_group L2::cache_hint?",
            "[d:global], [a:shared], b, e?0",
            "@copy_bulk_out($d, $a, $b)",
        ),
        (
            "cp reduce async bulk shared::cluster shared::cta TX op=add type=u32|s32|u64",
            "[d:shared], [a:shared], b, [c:shared]",
            "@reduce_bulk_to_shared<@$type>($d, $a, @${op}_op(), $b, $c)",
        ),
        (
            "cp reduce async bulk shared::cluster shared::cta TX op=min|max type=u32|s32",
            "[d:shared], [a:shared], b, [c:shared]",
            "@reduce_bulk_to_shared<@$type>($d, $a, @${op}_op(), $b, $c)",
        ),
        (
            "cp reduce async bulk shared::cluster shared::cta TX op=inc|dec type=u32",
            "[d:shared], [a:shared], b, [c:shared]",
            "@reduce_bulk_to_shared<@$type>($d, $a, @${op}_op(), $b, $c)",
        ),
        (
            "cp reduce async bulk shared::cluster shared::cta TX op=and|or|xor type=b32",
            "[d:shared], [a:shared], b, [c:shared]",
            "@reduce_bulk_to_shared<@$type>($d, $a, @${op}_op(), $b, $c)",
        ),
        (
            "cp reduce async bulk global shared::cta bulk_group L2::cache_hint? op=add type=u32|s32|u64|FLOAT",
            "[d:global], [a:shared], b, e?0",
            "@reduce_bulk<@$type>($d, $a, @${op}_op(), $b)",
        ),
        (
            "cp reduce async bulk global shared::cta bulk_group L2::cache_hint? op=add noftz type=f16|bf16",
            "[d:global], [a:shared], b, e?0",
            "@reduce_bulk<@$type>($d, $a, @${op}_op(), $b)",
        ),
        (
            "cp reduce async bulk global shared::cta bulk_group L2::cache_hint? op=min|max"
            " type=u32|s32|u64|s64|f16|bf16",
            "[d:global], [a:shared], b, e?0",
            "@reduce_bulk<@$type>($d, $a, @${op}_op(), $b)",
        ),
        (
            "cp reduce async bulk global shared::cta bulk_group L2::cache_hint? op=inc|dec type=u32",
            "[d:global], [a:shared], b, e?0",
            "@reduce_bulk<@$type>($d, $a, @${op}_op(), $b)",
        ),
        (
            "cp reduce async bulk global shared::cta bulk_group L2::cache_hint? op=and|or|xor type=b32|b64",
            "[d:global], [a:shared], b, e?0",
            "@reduce_bulk<@$type>($d, $a, @${op}_op(), $b)",
        ),
        (
            "cp async bulk tensor rank=1d|2d|3d|4d|5d WINDOW global tile? TX L2::cache_hint?",
            "[d:shared], [a;v], [c:shared], e?0",
            "@copy_tensor<$initial_rank>($d, $a, $v, $c)",
        ),
        (
            "cp async bulk tensor rank=1d|2d|3d|4d|5d shared::cluster global tile? TX multicast::cluster"
            " L2::cache_hint?",
            "[d:shared], [a;v], [c:shared], f, e?0",
            "@copy_tensor_multicast<$initial_rank>($d, $a, $v, $c, $f)",
        ),
        (
            "cp async bulk tensor rank=1d|2d|3d|4d|5d global shared::cta tile? bulk_group L2::cache_hint?",
            "[a;v], [b:shared], e?0",
            "@copy_tensor_out<$initial_rank>($a, $v, $b)",
        ),
        (
            "cp reduce async bulk tensor rank=1d|2d|3d|4d|5d global shared::cta op=add|min|max|inc|dec|and|or|xor"
            " tile? bulk_group L2::cache_hint?",
            "[a;v], [b:shared], e?0",
            "@reduce_tensor<$initial_rank>($a, $v, $b, @${op}_op())",
        ),
        (
            "st async weak? shared::cluster TX type=b32|u32|s32|f32|b64|u64|s64|f64",
            "[a:shared], b, [c:shared]",
            "@store_async<@$type>($a, $b, $c)",
        ),
        (
            "st async weak? shared::cluster TX v2|v4 type=b32|u32|s32|f32|b64|u64|s64|f64",
            "[a:shared], {b}, [c:shared]",
            "@store_async_vector<@$type>($a, $b, $c)",
        ),
        (
            "red async relaxed cluster shared::cluster? TX shared::cluster? op=inc|dec type=u32",
            "[a:shared], b, [c:shared]",
            "@reduce_async<@$type>($a, @${op}_op(), $b, $c)",
        ),
        (
            "red async relaxed cluster shared::cluster? TX shared::cluster? op=min|max type=u32|s32",
            "[a:shared], b, [c:shared]",
            "@reduce_async<@$type>($a, @${op}_op(), $b, $c)",
        ),
        (
            "red async relaxed cluster shared::cluster? TX shared::cluster? op=add type=u32|s32|u64",
            "[a:shared], b, [c:shared]",
            "@reduce_async<@$type>($a, @${op}_op(), $b, $c)",
        ),
        (
            "red async relaxed cluster shared::cluster? TX shared::cluster? op=and|or|xor type=b32",
            "[a:shared], b, [c:shared]",
            "@reduce_async<@$type>($a, @${op}_op(), $b, $c)",
        ),
        (
            "cp async bulk prefetch tensor 1d|2d|3d|4d|5d L2 global tile? L2::cache_hint?",
            "[a;v], e?0",
            "(void)$a, (void)$v",
        ),
        ("prefetch space=SPACE? tensormap", "[a]", "(void)$a"),
        ("cp async bulk commit_group", "", "smemkit_bulk_commit()"),
        ("cp async bulk wait_group read?", "a", "smemkit_bulk_wait($a, $flag_read)"),
        (
            "cp async bulk prefetch L2 global L2::cache_hint?",
            "[a:global], b, e?0",
            "@prefetch_bulk($a, $b)",
        ),
        ("fence proxy async", "", "smemkit::proxy_fence(true, true)"),
        ("fence proxy async global", "", "smemkit::proxy_fence(false, true)"),
        ("fence proxy async WINDOW", "", "smemkit::proxy_fence(true, false)"),
        ("fence proxy alias", "", "(void)0"),
        ("fence mbarrier_init release cluster", "", "smemkit::fence(2)"),
    ],
    "tensor_map": [
        (
            "tensormap replace tile field=global_address space=global|shared::cta? b1024 b64",
            "[a], b",
            "@tensormap_replace(@$field, $a, !$flag_global && smemkit_is_shared($a), 0, $b)",
        ),
        (
            "tensormap replace tile field=rank|elemtype|interleave_layout|swizzle_mode|fill_mode"
            " space=global|shared::cta? b1024 b32",
            "[a], b",
            "@tensormap_replace(@$field, $a, !$flag_global && smemkit_is_shared($a), 0, $b)",
        ),
        (
            "tensormap replace tile field=box_dim|global_dim|element_stride space=global|shared::cta? b1024 b32",
            "[a], b, c",
            "@tensormap_replace(@$field, $a, !$flag_global && smemkit_is_shared($a), $b, $c)",
        ),
        (
            "tensormap replace tile field=global_stride space=global|shared::cta? b1024 b64",
            "[a], b, c",
            "@tensormap_replace(@$field, $a, !$flag_global && smemkit_is_shared($a), $b, $c)",
        ),
        *(
            (
                f"tensormap cp_fenceproxy global shared::cta tensormap::generic release {scope} sync aligned",
                "[d:global], [a:shared], b",
                f"@copy_tensor_map({number}, $d, $a, $b)",
            )
            for scope, number in _FENCE_SCOPES.items()
        ),
        *(
            (f"fence proxy tensormap::generic release {scope}", "", f"smemkit::tensor_map_release({number})")
            for scope, number in _FENCE_SCOPES.items()
        ),
        *(
            (
                f"fence proxy tensormap::generic acquire {scope}",
                "[a], b",
                f"@tensor_map_acquire({number}, $a, $b)",
            )
            for scope, number in _FENCE_SCOPES.items()
        ),
    ],
}
