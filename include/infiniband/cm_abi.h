/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libibcm 1.0.5 installed the kernel's binary interface beside <infiniband/cm.h>. There is no such
 * kernel any more, and programs had no use for it but its version: that is what is left.
 */
#ifndef WIREUP_INFINIBAND_CM_ABI_H
#define WIREUP_INFINIBAND_CM_ABI_H

#include <infiniband/cm.h>

#define IB_USER_CM_MIN_ABI_VERSION 4
#define IB_USER_CM_MAX_ABI_VERSION 5

#endif
