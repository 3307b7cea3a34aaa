// SPDX-License-Identifier: BSD-3-Clause
#include "mad/acm.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "mad/gid_field.hpp"

namespace wireup::mad {
namespace {

// The layout of the ACM's wire: the words of the MAD header first, as other programs fill them
// (the status code in the high byte, the control word where other classes have their own 16 bits).
constexpr Field kBaseVersionField{0, 0, 8};
constexpr Field kMgmtClass{1, 0, 8};
constexpr Field kClassVersion{2, 0, 8};
constexpr Field kMethod{3, 0, 8};
constexpr Field kStatusCode{4, 0, 8};
constexpr Field kStatusLow{5, 0, 8};
constexpr Field kControl{6, 0, 16};
constexpr Field kTid{8, 0, 64};
constexpr Field kDestinationType{16, 0, 8};
constexpr Field kDestinationLength{17, 0, 8};
constexpr Field kSourceType{18, 0, 8};
constexpr Field kSourceLength{19, 0, 8};
constexpr Field kGidCount{20, 0, 8};
constexpr Field kResponderResources{21, 0, 8};
constexpr Field kInitiatorDepth{22, 0, 8};
constexpr Field kReserved{23, 0, 8};
constexpr std::size_t kDestination = 24;
constexpr std::size_t kSource = 88;
constexpr std::size_t kGids = 152;

static_assert(fields_are_disjoint(std::array{kBaseVersionField, kMgmtClass, kClassVersion, kMethod,
                                             kStatusCode, kStatusLow, kControl, kTid,
                                             kDestinationType, kDestinationLength, kSourceType,
                                             kSourceLength, kGidCount, kResponderResources,
                                             kInitiatorDepth, kReserved},
                                  kDestination));
static_assert(kDestination + AcmAddress::kSize == kSource && kSource + AcmAddress::kSize == kGids);
static_assert(kGids + AcmGroups::kMax * Gid::kSize <= kMadSize);
static_assert(kGids + (AcmGroups::kMax + 1) * Gid::kSize > kMadSize);

constexpr std::uint8_t kAcmClass = static_cast<std::uint8_t>(MgmtClass::Acm);
constexpr std::uint8_t kAcmClassVersion = 1;
constexpr std::uint8_t kRequestMethod = 0x01;
constexpr std::uint8_t kResponseMethod = 0x81;
constexpr std::uint16_t kControlResolve = 1;

/// Bytes of an address of the type; nothing for a type without a fixed size.
constexpr std::optional<std::size_t> address_size(AcmAddressType type) noexcept {
  switch (type) {
    case AcmAddressType::Name:
      return std::nullopt;
    case AcmAddressType::Ipv4:
      return 4;
    case AcmAddressType::Ipv6:
    case AcmAddressType::Gid:
      return 16;
    case AcmAddressType::Lid:
      return 2;
  }
  return std::nullopt;
}

Result<AcmGroups> parse_groups(std::span<const std::uint8_t> bytes, std::size_t count) noexcept {
  if (count == 0 || count > AcmGroups::kMax) {
    return fail(Error::make(Errc::Malformed, "ACM message with %zu groups, 1 to %zu are possible",
                            count, AcmGroups::kMax));
  }
  AcmGroups groups;
  groups.count = count;
  for (std::size_t i = 0; i < count; ++i) {
    groups.gids[i] = load_gid(bytes, kGids + i * Gid::kSize);
    if (!groups.gids[i].is_multicast()) {
      return fail(Error::make(Errc::Malformed,
                              "ACM message whose group %zu, %s, is no multicast "
                              "GID",
                              i, to_text(groups.gids[i]).data()));
    }
  }
  return groups;
}

Result<AcmMessage> parse_request(std::span<const std::uint8_t> bytes) noexcept {
  const auto destination =
      AcmAddress::parse(bytes[kDestinationType.byte],
                        bytes.subspan<kDestination, AcmAddress::kSize>(), "destination");
  if (!destination) {
    return fail(destination.error());
  }
  const auto source = AcmAddress::parse(bytes[kSourceType.byte],
                                        bytes.subspan<kSource, AcmAddress::kSize>(), "source");
  if (!source) {
    return fail(source.error());
  }
  const auto groups = parse_groups(bytes, static_cast<std::size_t>(kGidCount.get(bytes)));
  if (!groups) {
    return fail(groups.error());
  }
  return AcmRequest{Tid(kTid.get(bytes)), *destination, *source, *groups};
}

Result<AcmMessage> parse_response(std::span<const std::uint8_t> bytes) noexcept {
  AcmResponse response;
  response.tid = Tid(kTid.get(bytes));
  response.status = static_cast<std::uint8_t>(kStatusCode.get(bytes));
  if (response.status != 0) {
    return response;
  }
  const auto count = static_cast<std::size_t>(kGidCount.get(bytes));
  const auto groups = parse_groups(bytes, count);
  if (!groups) {
    return fail(groups.error());
  }
  if (count != 1) {
    return fail(Error::make(Errc::Malformed, "ACM response with %zu groups, expected 1", count));
  }
  response.group = groups->gids[0];
  return response;
}

void put_header(Mad& to, std::uint8_t method, std::uint8_t status, Tid tid) noexcept {
  to = {};
  kBaseVersionField.put(to, kBaseVersion);
  kMgmtClass.put(to, kAcmClass);
  kClassVersion.put(to, kAcmClassVersion);
  kMethod.put(to, method);
  kStatusCode.put(to, status);
  kControl.put(to, kControlResolve);
  kTid.put(to, tid.value());
}

}  // namespace

AcmAddress::AcmAddress(AcmAddressType type, std::span<const std::uint8_t> bytes) noexcept
    : type_(type) {
  WIREUP_CHECK(bytes.size() <= kSize);
  std::copy(bytes.begin(), bytes.end(), bytes_.begin());
}

AcmAddress AcmAddress::gid(const Gid& gid) noexcept {
  return {AcmAddressType::Gid, gid.bytes()};
}

AcmAddress AcmAddress::lid(Lid lid) noexcept {
  const std::array<std::uint8_t, 2> bytes{static_cast<std::uint8_t>(lid.value() >> 8U),
                                          static_cast<std::uint8_t>(lid.value() & 0xFFU)};
  return {AcmAddressType::Lid, bytes};
}

AcmAddress AcmAddress::ipv4(const std::array<std::uint8_t, 4>& address) noexcept {
  return {AcmAddressType::Ipv4, address};
}

AcmAddress AcmAddress::ipv6(const std::array<std::uint8_t, 16>& address) noexcept {
  return {AcmAddressType::Ipv6, address};
}

Result<AcmAddress> AcmAddress::name(std::string_view name) noexcept {
  if (name.empty() || name.size() > kSize || name.find('\0') != std::string_view::npos) {
    return fail(Error::make(Errc::InvalidArgument,
                            "ACM name of %zu bytes: 1 to %zu are possible, without NUL",
                            name.size(), kSize));
  }
  Bytes bytes{};
  std::copy(name.begin(), name.end(), bytes.begin());
  return AcmAddress(AcmAddressType::Name, bytes);
}

Result<AcmAddress> AcmAddress::parse(std::uint8_t type, std::span<const std::uint8_t, kSize> bytes,
                                     const char* which) noexcept {
  if (type < static_cast<std::uint8_t>(AcmAddressType::Name) ||
      type > static_cast<std::uint8_t>(AcmAddressType::Lid)) {
    return fail(
        Error::make(Errc::Malformed, "ACM %s address of type %u, 1 to 5 are known", which, type));
  }
  const AcmAddress address(static_cast<AcmAddressType>(type), bytes);
  const auto end = std::find(bytes.begin(), bytes.end(), std::uint8_t{0});
  const std::size_t size =
      address_size(address.type_).value_or(static_cast<std::size_t>(end - bytes.begin()));
  if (size == 0) {
    return fail(Error::make(Errc::Malformed, "ACM %s address is an empty name", which));
  }
  for (std::size_t i = size; i < kSize; ++i) {
    if (bytes[i] != 0) {
      return fail(Error::make(Errc::Malformed,
                              "ACM %s address of type %u has byte %zu of its padding set", which,
                              type, i));
    }
  }
  return address;
}

std::optional<Gid> AcmAddress::as_gid() const noexcept {
  if (type_ != AcmAddressType::Gid) {
    return std::nullopt;
  }
  return load_gid(bytes_, 0);
}

std::optional<Lid> AcmAddress::as_lid() const noexcept {
  if (type_ != AcmAddressType::Lid) {
    return std::nullopt;
  }
  return Lid(static_cast<std::uint16_t>(bytes_[0] << 8U | bytes_[1]));
}

std::string value_text(const AcmAddress& address) {
  const AcmAddress::Bytes& bytes = address.bytes();
  std::string text;
  switch (address.type()) {
    case AcmAddressType::Name:
      for (auto at = bytes.begin(); at != bytes.end() && *at != 0; ++at) {
        const bool is_printable = *at > ' ' && *at < 0x7F;
        text += is_printable ? static_cast<char>(*at) : '?';
      }
      break;
    case AcmAddressType::Ipv4:
      for (std::size_t i = 0; i < 4; ++i) {
        text += (i == 0 ? "" : ".") + std::to_string(bytes[i]);
      }
      break;
    case AcmAddressType::Ipv6:
    case AcmAddressType::Gid: {
      Gid::Bytes value{};
      std::copy_n(bytes.begin(), value.size(), value.begin());
      text = to_text(Gid(value)).data();
      break;
    }
    case AcmAddressType::Lid:
      text = std::to_string(bytes[0] << 8U | bytes[1]);
      break;
  }
  return text;
}

std::string to_text(const AcmAddress& address) {
  switch (address.type()) {
    case AcmAddressType::Name:
      return "name " + value_text(address);
    case AcmAddressType::Ipv4:
    case AcmAddressType::Ipv6:
      return "IP address " + value_text(address);
    case AcmAddressType::Gid:
      return "GID " + value_text(address);
    case AcmAddressType::Lid:
      return "LID " + value_text(address);
  }
  return "no address";
}

Result<AcmMessage> parse_acm(std::span<const std::uint8_t> bytes) noexcept {
  if (bytes.size() != kMadSize) {
    return fail(Error::make(Errc::Malformed, "ACM message of %zu bytes, expected %zu", bytes.size(),
                            kMadSize));
  }
  if (kBaseVersionField.get(bytes) != kBaseVersion || kMgmtClass.get(bytes) != kAcmClass ||
      kClassVersion.get(bytes) != kAcmClassVersion) {
    return fail(Error::make(Errc::Malformed,
                            "MAD of base version %u, class 0x%02x, class version %u is not an ACM "
                            "message",
                            bytes[0], bytes[1], bytes[2]));
  }
  if (kControl.get(bytes) != kControlResolve) {
    return fail(Error::make(Errc::Malformed, "ACM message with control word 0x%04x, expected 1",
                            static_cast<unsigned>(kControl.get(bytes))));
  }
  switch (kMethod.get(bytes)) {
    case kRequestMethod:
      return parse_request(bytes);
    case kResponseMethod:
      return parse_response(bytes);
    default:
      return fail(Error::make(Errc::Malformed, "ACM message with method 0x%02x", bytes[3]));
  }
}

void serialize(const AcmRequest& request, Mad& to) noexcept {
  WIREUP_CHECK(request.groups.count >= 1 && request.groups.count <= AcmGroups::kMax);
  put_header(to, kRequestMethod, 0, request.tid);
  kDestinationType.put(to, static_cast<std::uint64_t>(request.destination.type()));
  kDestinationLength.put(to, AcmAddress::kSize);
  kSourceType.put(to, static_cast<std::uint64_t>(request.source.type()));
  kSourceLength.put(to, AcmAddress::kSize);
  kGidCount.put(to, request.groups.count);
  std::copy(request.destination.bytes().begin(), request.destination.bytes().end(),
            to.begin() + kDestination);
  std::copy(request.source.bytes().begin(), request.source.bytes().end(), to.begin() + kSource);
  for (std::size_t i = 0; i < request.groups.count; ++i) {
    store_gid(request.groups.gids[i], to, kGids + i * Gid::kSize);
  }
}

void serialize(const AcmResponse& response, Mad& to) noexcept {
  put_header(to, kResponseMethod, response.status, response.tid);
  if (response.group.has_value()) {
    kGidCount.put(to, 1);
    store_gid(*response.group, to, kGids);
  }
}

}  // namespace wireup::mad
