// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/umad/passed_descriptor.hpp"

#include <cstring>

namespace softhca {

ssize_t send_with_descriptor(int socket, std::span<const std::byte> data, int descriptor,
                             int flags) {
  iovec part = {const_cast<std::byte*>(data.data()), data.size()};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  DescriptorRoom room;
  if (descriptor >= 0) {
    message.msg_control = room.bytes.data();
    message.msg_controllen = room.bytes.size();
    cmsghdr* item = CMSG_FIRSTHDR(&message);
    item->cmsg_level = SOL_SOCKET;
    item->cmsg_type = SCM_RIGHTS;
    item->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(item), &descriptor, sizeof descriptor);
  }
  return sendmsg(socket, &message, flags);
}

int passed_descriptor(msghdr& message) {
  int found = -1;
  for (cmsghdr* item = CMSG_FIRSTHDR(&message); item != nullptr;
       item = CMSG_NXTHDR(&message, item)) {
    if (item->cmsg_level == SOL_SOCKET && item->cmsg_type == SCM_RIGHTS &&
        item->cmsg_len >= CMSG_LEN(sizeof(int))) {
      std::memcpy(&found, CMSG_DATA(item), sizeof found);
    }
  }
  return found;
}

}  // namespace softhca
