// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/cli/fault.hpp"

namespace softhca::cli {

// clang-format off
const char kVerbsFaultHelp[] =
    "usage: softhca fault ud [--drop P] [--duplicate P] [--reorder P] [--seed N]\n"
    "       softhca fault ud drop|duplicate|delay|reorder|corrupt [OPTIONS]\n"
    "       softhca fault rc stall|break [OPTIONS]\n"
    "       softhca fault error STATUS [OPTIONS]\n"
    "       softhca fault call NAME --errno E [--to STATE] [OPTIONS]\n"
    "       softhca fault limit qps|cqes|memory N [--src PORT]\n"
    "       softhca fault qkeys restricted|open\n"
    "       softhca fault async [--delay US] [--seed N] | off\n"
    "       softhca fault show\n"
    "       softhca fault clear\n"
    "All hold for every host and every process of the fabric at once, until changed or cleared.\n"
    "`ud` with probabilities sets what happens to each UD datagram that verbs send:\n"
    "  --drop P       lost with probability P\n"
    "  --duplicate P  delivered twice\n"
    "  --reorder P    held back until the sender's next datagram or for 2 ms\n"
    "  --seed N       of the draws: the n-th datagram after this command always fares alike\n"
    "P is 0 to 1, or a percentage like 20%. What is not given is 0. `softhca stats` counts it.\n"
    "The other forms add a rule each:\n"
    "  ud ...      the same, delay, or a bit turned over, for the datagrams that OPTIONS name\n"
    "  rc stall    requests of RC, UC and UD wait, and no timer runs\n"
    "  rc break    what goes from src to dst is lost, acknowledgements included: one way only\n"
    "  error       requests complete with STATUS (retry_exc_err, rem_op_err, loc_prot_err, ...)\n"
    "  call        open_device, alloc_pd, reg_mr, create_channel, create_cq, resize_cq, create_srq,\n"
    "              create_qp, modify_qp (--to RTR), create_ah, attach_mcast, post_send or post_recv\n"
    "              fails with E (ENOMEM, EAGAIN, ...)\n"
    "  limit       QPs of an HCA, entries of one CQ, or bytes that a process may pin\n"
    "OPTIONS: --src PORT --dst PORT (HOST, HOST:PORT or HOST:DEVICE:PORT), --qpn N (where it goes),\n"
    "  --src-qpn N, --nth N (only the n-th that matches), --every N, --count N (at most so many),\n"
    "  --chance P, --seed N, --delay MS.\n"
    "`qkeys restricted` refuses Q_Keys with the top bit set to processes without CAP_NET_RAW, with\n"
    "EPERM, as kernels do since 2023. `async` has work requests executed and completed after they\n"
    "were posted, as on hardware, with delays of up to US microseconds (200) drawn from the seed; a\n"
    "queue pair keeps its order, several interleave. `clear` leaves these two as they are.\n";
// clang-format on

}  // namespace softhca::cli
