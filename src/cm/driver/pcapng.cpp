// SPDX-License-Identifier: BSD-3-Clause
#include "cm/driver/pcapng.hpp"

#include <algorithm>
#include <cstddef>

#include "base/bytes.hpp"

namespace wireup::cm::pcapng {
namespace {

constexpr std::uint32_t kSectionHeader = 0x0A0D0D0A;
constexpr std::uint32_t kByteOrderMagic = 0x1A2B3C4D;
constexpr std::uint32_t kInterfaceDescription = 1;
constexpr std::uint32_t kEnhancedPacket = 6;

constexpr std::uint16_t kOptionEnd = 0;
constexpr std::uint16_t kOptionComment = 1;
constexpr std::uint16_t kSectionApplication = 4;
constexpr std::uint16_t kInterfaceName = 2;
constexpr std::uint16_t kInterfaceTimeResolution = 9;
constexpr std::uint16_t kPacketFlags = 2;
/// Of kInterfaceTimeResolution: 10^-9 s.
constexpr std::uint8_t kNanoseconds = 9;
constexpr std::uint32_t kInbound = 1;
constexpr std::uint32_t kOutbound = 2;
/// An option's length has 16 bits; no text of ours is near to that.
constexpr std::size_t kLongestText = 0xFFF0;

constexpr std::uint16_t kLinkTypeErf = 197;
constexpr std::size_t kErfHeaderSize = 16;
constexpr std::uint8_t kErfInfiniband = 21;
/// Of the record's flags: records have the length of their packets.
constexpr std::uint8_t kErfVaryingLength = 0x04;
constexpr std::uint64_t kNanosecondsPerSecond = 1'000'000'000;

/// A block that grows; end() makes it whole.
class Writer {
 public:
  explicit Writer(std::uint32_t type) {
    u32(type);
    u32(0);  // its length, which end() knows
  }
  void u16(std::uint16_t value) { little_endian(value, 2); }
  void u32(std::uint32_t value) { little_endian(value, 4); }
  void u64(std::uint64_t value) { little_endian(value, 8); }
  void bytes(std::span<const std::uint8_t> value) {
    bytes_.insert(bytes_.end(), value.begin(), value.end());
  }
  void pad() { bytes_.resize((bytes_.size() + 3) / 4 * 4); }
  void option(std::uint16_t code, std::span<const std::uint8_t> value) {
    u16(code);
    u16(static_cast<std::uint16_t>(value.size()));
    bytes(value);
    pad();
  }
  void text_option(std::uint16_t code, std::string_view text) {
    if (text.empty()) {
      return;
    }
    const std::vector<std::uint8_t> value(
        text.begin(),
        text.begin() + static_cast<std::ptrdiff_t>(std::min(text.size(), kLongestText)));
    option(code, value);
  }
  [[nodiscard]] Block end() {
    u16(kOptionEnd);
    u16(0);
    const auto length = static_cast<std::uint32_t>(bytes_.size() + 4);
    u32(length);
    for (std::size_t i = 0; i < 4; ++i) {
      bytes_[4 + i] = static_cast<std::uint8_t>(length >> (8 * i));
    }
    return std::move(bytes_);
  }

 private:
  void little_endian(std::uint64_t value, std::size_t size) {
    for (std::size_t i = 0; i < size; ++i) {
      bytes_.push_back(static_cast<std::uint8_t>(value >> (8 * i)));
    }
  }
  Block bytes_;
};

/// The time of an ERF record: seconds above the binary point, 32 bits of a second's parts below it.
std::uint64_t erf_time(std::uint64_t time_ns) noexcept {
  const std::uint64_t seconds = time_ns / kNanosecondsPerSecond;
  const std::uint64_t rest = time_ns % kNanosecondsPerSecond;
  return seconds << 32U | (rest << 32U) / kNanosecondsPerSecond;
}

}  // namespace

Block section_header(std::string_view application, std::string_view comment) {
  Writer writer(kSectionHeader);
  writer.u32(kByteOrderMagic);
  writer.u16(1);  // version 1.0
  writer.u16(0);
  writer.u64(~std::uint64_t{0});  // the section's length: not said
  writer.text_option(kOptionComment, comment);
  writer.text_option(kSectionApplication, application);
  return writer.end();
}

Block interface_description(std::string_view name) {
  Writer writer(kInterfaceDescription);
  writer.u16(kLinkTypeErf);
  writer.u16(0);
  writer.u32(0);  // packets are never cut
  writer.text_option(kInterfaceName, name);
  const std::uint8_t resolution[] = {kNanoseconds};
  writer.option(kInterfaceTimeResolution, resolution);
  return writer.end();
}

Block enhanced_packet(const PacketInfo& info, std::span<const std::uint8_t> packet) {
  const std::size_t record = kErfHeaderSize + packet.size();
  Writer writer(kEnhancedPacket);
  writer.u32(0);  // the first interface
  writer.u32(static_cast<std::uint32_t>(info.time_ns >> 32U));
  writer.u32(static_cast<std::uint32_t>(info.time_ns));
  writer.u32(static_cast<std::uint32_t>(record));
  writer.u32(static_cast<std::uint32_t>(record));
  // The ERF header: its time is little-endian, the rest big-endian.
  writer.u64(erf_time(info.time_ns));
  std::uint8_t header[8] = {kErfInfiniband, kErfVaryingLength};
  store_be(header, 2, 2, record);
  store_be(header, 6, 2, packet.size());
  writer.bytes(header);
  writer.bytes(packet);
  writer.pad();
  writer.text_option(kOptionComment, info.comment);
  std::uint8_t flags[4] = {static_cast<std::uint8_t>(info.is_outbound ? kOutbound : kInbound)};
  writer.option(kPacketFlags, flags);
  return writer.end();
}

}  // namespace wireup::cm::pcapng
