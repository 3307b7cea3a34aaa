// SPDX-License-Identifier: BSD-3-Clause
#include "acm/server/client_status.hpp"

#include <algorithm>
#include <array>

namespace wireup::acm {
namespace {

struct Row {
  ClientStatus status;
  int error;
  std::string_view name;
  std::string_view sentence;
};

constexpr std::array kRows{
#define WIREUP_CLIENT_STATUS_ROW(name, number, error, text, sentence) \
  Row{ClientStatus::name, error, text, sentence},
    WIREUP_CLIENT_STATUSES(WIREUP_CLIENT_STATUS_ROW)
#undef WIREUP_CLIENT_STATUS_ROW
};

constexpr Row kUnknown{ClientStatus::Invalid, EINVAL, "unknown",
                       "the service failed for a reason without a name"};

const Row& row_of(ClientStatus status) noexcept {
  const auto* at = std::find_if(kRows.begin(), kRows.end(),
                                [&](const Row& row) { return row.status == status; });
  return at != kRows.end() ? *at : kUnknown;
}

}  // namespace

std::string_view status_name(ClientStatus status) noexcept {
  return row_of(status).name;
}

std::string_view status_sentence(ClientStatus status) noexcept {
  return row_of(status).sentence;
}

int status_errno(ClientStatus status) noexcept {
  return row_of(status).error;
}

}  // namespace wireup::acm
