// SPDX-License-Identifier: BSD-3-Clause
#include "mad/cm_status.hpp"

namespace wireup::mad {
namespace {

/// A row of a table of statuses.
struct Status {
  std::uint8_t number;
  std::string_view name;
  std::string_view sentence;
};

#define WIREUP_STATUS_ROW(name, number, sentence) {number, #name, sentence},
constexpr Status kAprStatuses[] = {WIREUP_APR_STATUSES(WIREUP_STATUS_ROW)};
constexpr Status kSidrStatuses[] = {WIREUP_SIDR_STATUSES(WIREUP_STATUS_ROW)};
#undef WIREUP_STATUS_ROW

template <typename Table>
constexpr Status find(const Table& table, std::uint8_t number) noexcept {
  for (const Status& status : table) {
    if (status.number == number) {
      return status;
    }
  }
  return {number, "Unknown", "unknown status"};
}

}  // namespace

std::string_view apr_status_name(std::uint8_t status) noexcept {
  return find(kAprStatuses, status).name;
}
std::string_view apr_status_sentence(std::uint8_t status) noexcept {
  return find(kAprStatuses, status).sentence;
}
std::string_view sidr_status_name(std::uint8_t status) noexcept {
  return find(kSidrStatuses, status).name;
}
std::string_view sidr_status_sentence(std::uint8_t status) noexcept {
  return find(kSidrStatuses, status).sentence;
}

}  // namespace wireup::mad
