// SPDX-License-Identifier: BSD-3-Clause
// Marks the functions that the preload library offers in place of libibumad's.
#pragma once

#define SOFTHCA_EXPORT extern "C" __attribute__((visibility("default")))

namespace softhca {

/// Level set by umad_debug(); from 1 on, failures are told on stderr.
int umad_debug_level();
[[gnu::format(printf, 1, 2)]] void umad_complain(const char* format, ...);

}  // namespace softhca
