// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <rdma/rdma_cma.h>

#include <optional>

#include "rdmacm/cm_values.hpp"

/// What an event of librdmacm says, in values of ours.
namespace wireup::rdmacm {

[[nodiscard]] CmEventKind event_kind(rdma_cm_event_type type) noexcept;
/// Whether an event of the kind carries the values of a message.
[[nodiscard]] bool has_values(CmEventKind kind) noexcept;

/// Nothing when a number is wider than its field in a message. An event has responder resources and
/// initiator depth as the receiver sees them, the message and we as the sender does: they change
/// places here (rdma_get_cm_event(3)).
[[nodiscard]] std::optional<ConnectionValues> event_values(const rdma_conn_param& from) noexcept;
[[nodiscard]] BoundedBytes<ConnectionValues::kMaxPrivateData> event_private_data(
    const rdma_conn_param& from) noexcept;

/// Path and addresses of an id; a path that no SA record could be is left out.
void take_route(const rdma_route& route, CmEvent& to);

}  // namespace wireup::rdmacm
