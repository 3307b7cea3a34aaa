// SPDX-License-Identifier: BSD-3-Clause
#include "cm/driver/carrier.hpp"

#include <cstdio>

#include "base/check.hpp"

namespace wireup::cm {
namespace {

struct Row {
  CarrierKind kind;
  std::string_view word;
  std::string_view sentence;
};

#define WIREUP_CM_CARRIER_ROW(name, word, sentence) {CarrierKind::name, word, sentence},
constexpr Row kRows[] = {WIREUP_CM_CARRIERS(WIREUP_CM_CARRIER_ROW)};
#undef WIREUP_CM_CARRIER_ROW

using Any = std::variant<UdCarrier, GsiCarrier>;

Result<Any> open_one(CarrierKind kind, const verbs::Device& device, const Carrier::Options& options,
                     const umad::Ops& mad_ops) {
  switch (kind) {
    case CarrierKind::Ud: {
      auto carrier = UdCarrier::open(device, options.ud);
      return carrier ? Result<Any>(std::move(*carrier)) : fail(carrier.error());
    }
    case CarrierKind::Gsi: {
      auto carrier = GsiCarrier::open(options.gsi, mad_ops);
      return carrier ? Result<Any>(std::move(*carrier)) : fail(carrier.error());
    }
  }
  return fail(Errc::Internal);
}

std::string described(const Row& row, const Any& carrier) {
  const Qpn qpn = std::visit([](const auto& each) { return each.qpn(); }, carrier);
  char number[16];
  std::snprintf(number, sizeof number, " (0x%06x)", static_cast<unsigned>(qpn.value()));
  return std::string(row.word) + ": " + std::string(row.sentence) + number;
}

}  // namespace

std::string_view carrier_name(CarrierKind kind) noexcept {
  return kRows[static_cast<std::size_t>(kind)].word;
}

std::optional<CarrierKind> carrier_of(std::string_view word) noexcept {
  for (const Row& row : kRows) {
    if (row.word == word) {
      return row.kind;
    }
  }
  return std::nullopt;
}

Result<Carrier> Carrier::open(const verbs::Device& device, const Options& options,
                              const umad::Ops& mad_ops) {
  std::optional<Error> first;
  std::string faults;
  for (const Row& row : kRows) {
    if (options.forced.has_value() && *options.forced != row.kind) {
      continue;
    }
    auto carrier = open_one(row.kind, device, options, mad_ops);
    if (!carrier) {
      const std::string_view fault = carrier.error().what();
      faults += (faults.empty() ? "" : "; ") + std::string(row.word) + ": " + std::string(fault);
      first = first.value_or(carrier.error());
      if (carrier.error().is(Errc::MemlockLimit)) {
        // It would stop the connections' own queue pairs, too: say so now.
        break;
      }
      continue;
    }
    std::string reason = described(row, *carrier);
    if (options.forced.has_value()) {
      reason += ", as " + options.forced_by + " says";
    } else if (faults.empty()) {
      reason += ", the first choice: it needs no privilege";
    } else {
      reason += ", since others cannot be had: " + faults;
    }
    return Carrier(std::move(*carrier), std::move(reason));
  }
  WIREUP_CHECK(first.has_value());
  return fail(*first);
}

}  // namespace wireup::cm
