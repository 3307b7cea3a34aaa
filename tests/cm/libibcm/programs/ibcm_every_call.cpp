// SPDX-License-Identifier: BSD-3-Clause
//
// The same as C++, where enumerations are types and int is none of them.
// Such programs know nothing of our warnings.
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wold-style-cast"
#include "ibcm_every_call.c"  // NOLINT(bugprone-suspicious-include): the same program
