// SPDX-License-Identifier: BSD-3-Clause
#include "mad/header.hpp"

namespace wireup::mad {
namespace {

// IBTA vol 1, table 109 (standard MAD header).
constexpr Field kBaseVersionField{0, 0, 8};
constexpr Field kMgmtClass{1, 0, 8};
constexpr Field kClassVersion{2, 0, 8};
constexpr Field kMethod{3, 0, 8};
constexpr Field kStatus{4, 0, 16};
constexpr Field kClassSpecific{6, 0, 16};
constexpr Field kTid{8, 0, 64};
constexpr Field kAttributeId{16, 0, 16};
constexpr Field kReserved{18, 0, 16};
constexpr Field kAttributeModifier{20, 0, 32};

static_assert(fields_are_disjoint(std::array{kBaseVersionField, kMgmtClass, kClassVersion, kMethod,
                                             kStatus, kClassSpecific, kTid, kAttributeId, kReserved,
                                             kAttributeModifier},
                                  kHeaderSize));

}  // namespace

Result<Header> parse_header(std::span<const std::uint8_t> bytes) noexcept {
  if (bytes.size() < kHeaderSize) {
    return fail(Error::make(Errc::Malformed, "MAD of %zu bytes, the header alone has %zu",
                            bytes.size(), kHeaderSize));
  }
  if (kBaseVersionField.get(bytes) != kBaseVersion) {
    return fail(Error::make(Errc::Malformed, "MAD base version %u, expected %u", bytes[0],
                            static_cast<unsigned>(kBaseVersion)));
  }
  Header header;
  header.mgmt_class = static_cast<std::uint8_t>(kMgmtClass.get(bytes));
  header.class_version = static_cast<std::uint8_t>(kClassVersion.get(bytes));
  header.method = static_cast<std::uint8_t>(kMethod.get(bytes));
  header.status = static_cast<std::uint16_t>(kStatus.get(bytes));
  header.class_specific = static_cast<std::uint16_t>(kClassSpecific.get(bytes));
  header.tid = Tid(kTid.get(bytes));
  header.attribute_id = static_cast<std::uint16_t>(kAttributeId.get(bytes));
  header.attribute_modifier = static_cast<std::uint32_t>(kAttributeModifier.get(bytes));
  return header;
}

void serialize(const Header& header, std::span<std::uint8_t, kMadSize> to) noexcept {
  kBaseVersionField.put(to, header.base_version);
  kMgmtClass.put(to, header.mgmt_class);
  kClassVersion.put(to, header.class_version);
  kMethod.put(to, header.method);
  kStatus.put(to, header.status);
  kClassSpecific.put(to, header.class_specific);
  kTid.put(to, header.tid.value());
  kAttributeId.put(to, header.attribute_id);
  kReserved.put(to, 0);
  kAttributeModifier.put(to, header.attribute_modifier);
}

}  // namespace wireup::mad
