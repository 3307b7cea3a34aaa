// SPDX-License-Identifier: BSD-3-Clause
#include "acm/server/client_listener.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>

#include "acm/temporary_directory.hpp"

namespace wireup::acm {
namespace {

using test::TemporaryDirectory;

sockaddr_un address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::copy(path.begin(), path.end(), std::begin(address.sun_path));
  return address;
}

const sockaddr* generic(const sockaddr_un& address) {
  return static_cast<const sockaddr*>(static_cast<const void*>(&address));
}

bool can_connect(const std::string& path) {
  const UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_un address = address_of(path);
  return connect(fd.value(), generic(address), sizeof(address)) == 0;
}

/// A socket of another daemon's at `path`; its name stays when it is closed.
UniqueFd other_daemon(const std::string& path, int type = SOCK_STREAM, int backlog = 64) {
  UniqueFd fd(socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
  const sockaddr_un address = address_of(path);
  EXPECT_EQ(bind(fd.value(), generic(address), sizeof(address)), 0);
  EXPECT_EQ(listen(fd.value(), backlog), 0);
  return fd;
}

class ClientListenerTest : public testing::Test {
 protected:
  [[nodiscard]] std::string at(const std::string& name) const {
    return directory_.path() + "/" + name;
  }
  [[nodiscard]] Result<ClientListener> open() const {
    return listen_client_socket(path_, 0666, {link_});
  }
  /// The kind of failure; nothing when it listens.
  [[nodiscard]] std::optional<Error> failure() const {
    auto listener = open();
    return listener ? std::nullopt : std::optional(listener.error());
  }

  TemporaryDirectory directory_;
  const std::string path_ = at("ibacm-unix.sock");
  const std::string link_ = at("ibacm.sock");
};

TEST_F(ClientListenerTest, ListensAtBothNamesAndTakesThemAway) {
  {
    const auto listener = open();
    ASSERT_TRUE(listener.has_value()) << listener.error().what();
    EXPECT_TRUE(can_connect(path_));
    EXPECT_TRUE(can_connect(link_));
    EXPECT_EQ(std::filesystem::read_symlink(link_), "ibacm-unix.sock");
    struct stat found {};
    ASSERT_EQ(stat(path_.c_str(), &found), 0);
    EXPECT_EQ(found.st_mode & 07777U, 0666U);
  }
  EXPECT_FALSE(std::filesystem::exists(std::filesystem::symlink_status(path_)));
  EXPECT_FALSE(std::filesystem::exists(std::filesystem::symlink_status(link_)));
  EXPECT_TRUE(open().has_value()) << "again";
}

TEST_F(ClientListenerTest, LinksIntoAnotherFolderAreAbsolute) {
  ASSERT_TRUE(std::filesystem::create_directory(at("other")));
  const auto listener = listen_client_socket(path_, 0600, {at("other/ibacm.sock")});
  ASSERT_TRUE(listener.has_value()) << listener.error().what();
  EXPECT_TRUE(can_connect(at("other/ibacm.sock")));
}

TEST_F(ClientListenerTest, ARunningServiceKeepsItsSocket) {
  const auto first = open();
  ASSERT_TRUE(first.has_value());
  const auto second = failure();
  ASSERT_TRUE(second.has_value());
  EXPECT_TRUE(second->is(Errc::Busy));
  EXPECT_NE(second->what().find(directory_.path()), std::string_view::npos) << "names the path";
  EXPECT_NE(second->what().find("stop it"), std::string_view::npos) << "says what to do";
  EXPECT_TRUE(can_connect(path_));
  EXPECT_TRUE(can_connect(link_));
}

TEST_F(ClientListenerTest, SoDoesOneWithAnotherSocketBehindTheLink) {
  const UniqueFd daemon = other_daemon(at("elsewhere.sock"));
  std::filesystem::create_symlink("elsewhere.sock", link_);
  EXPECT_TRUE(failure()->is(Errc::Busy));
  EXPECT_FALSE(std::filesystem::exists(path_)) << "nothing is made before all names are free";
  EXPECT_TRUE(can_connect(link_));
}

TEST_F(ClientListenerTest, SoDoesOneWhoseQueueIsFullOrWhoseSocketIsOfAnotherKind) {
  {
    const UniqueFd daemon = other_daemon(path_, SOCK_STREAM, 0);
    std::vector<UniqueFd> waiting;
    const sockaddr_un address = address_of(path_);
    for (int i = 0; i < 100; ++i) {
      waiting.emplace_back(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
      if (connect(waiting.back().value(), generic(address), sizeof(address)) != 0) {
        break;
      }
    }
    ASSERT_LT(waiting.size(), 100U) << "a backlog of 0 is short";
    EXPECT_TRUE(failure()->is(Errc::Busy));
  }
  std::filesystem::remove(path_);
  const UniqueFd packets = other_daemon(path_, SOCK_SEQPACKET);
  EXPECT_TRUE(failure()->is(Errc::Busy));
}

TEST_F(ClientListenerTest, ADeadServicesNamesAreReplaced) {
  other_daemon(path_).reset();
  std::filesystem::create_symlink("ibacm-unix.sock", link_);
  ASSERT_TRUE(std::filesystem::exists(path_));
  const auto listener = open();
  ASSERT_TRUE(listener.has_value()) << listener.error().what();
  EXPECT_TRUE(can_connect(path_));
  EXPECT_TRUE(can_connect(link_));
}

TEST_F(ClientListenerTest, DanglingLinksAndDeadSocketsAtTheLinkAreReplaced) {
  std::filesystem::create_symlink("nowhere", link_);
  EXPECT_FALSE(failure().has_value());
  other_daemon(link_).reset();
  EXPECT_FALSE(failure().has_value());
}

TEST_F(ClientListenerTest, WhatNoServiceMadeStays) {
  for (const std::string& name : {path_, link_}) {
    std::ofstream(name) << "precious";
    const auto why = failure();
    ASSERT_TRUE(why.has_value());
    EXPECT_TRUE(why->is(Errc::InvalidArgument)) << why->what();
    EXPECT_NE(why->what().find("move it away"), std::string_view::npos);
    EXPECT_EQ(std::filesystem::file_size(name), 8U);
    std::filesystem::remove(name);
    EXPECT_FALSE(std::filesystem::exists(path_)) << "a failed start leaves nothing";
  }
  std::filesystem::create_symlink("nowhere", path_);
  EXPECT_TRUE(failure()->is(Errc::InvalidArgument));
}

TEST_F(ClientListenerTest, TakesAwayOnlyWhatIsStillItsOwn) {
  auto first = open();
  ASSERT_TRUE(first.has_value());
  // Somebody has put his own there.
  std::filesystem::remove(path_);
  const UniqueFd daemon = other_daemon(path_);
  std::filesystem::remove(link_);
  // Two, so that one of them cannot have the inode that has just become free.
  std::filesystem::create_symlink("ibacm-unix.sock", at("new"));
  std::filesystem::create_symlink("ibacm-unix.sock", at("newer"));
  std::filesystem::rename(at("newer"), link_);
  *first = std::move(*ClientListener::adopt(other_daemon(at("third.sock"))));
  EXPECT_TRUE(can_connect(path_));
  EXPECT_TRUE(can_connect(link_));
}

TEST_F(ClientListenerTest, TwoThatStartAtOnce) {
  const UniqueFd lock(
      ::open((path_ + ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, S_IRUSR | S_IWUSR));
  ASSERT_EQ(flock(lock.value(), LOCK_EX), 0);
  const auto why = failure();
  ASSERT_TRUE(why.has_value());
  EXPECT_TRUE(why->is(Errc::Busy));
  ASSERT_EQ(flock(lock.value(), LOCK_UN), 0);
  EXPECT_FALSE(failure().has_value());
}

TEST_F(ClientListenerTest, PathsThatCannotBe) {
  EXPECT_TRUE(listen_client_socket("", 0600, {}).error().is(Errc::InvalidArgument));
  const auto too_long = listen_client_socket(at(std::string(200, 'x')), 0600, {});
  EXPECT_TRUE(too_long.error().is(Errc::InvalidArgument));
  const auto nowhere = listen_client_socket(at("missing/ibacm.sock"), 0600, {});
  EXPECT_TRUE(nowhere.error().is(Errc::NoPermission));
  EXPECT_EQ(nowhere.error().error_number(), ENOENT);
}

TEST_F(ClientListenerTest, AdoptsASocketThatWasPassedAndLeavesItsName) {
  {
    const auto listener = ClientListener::adopt(other_daemon(path_));
    ASSERT_TRUE(listener.has_value()) << listener.error().what();
    EXPECT_NE(fcntl(listener->fd(), F_GETFL) & O_NONBLOCK, 0);
    EXPECT_TRUE(can_connect(path_));
  }
  EXPECT_TRUE(std::filesystem::exists(path_));
  std::filesystem::remove(path_);
  EXPECT_TRUE(
      ClientListener::adopt(other_daemon(path_, SOCK_SEQPACKET)).error().is(Errc::InvalidArgument));
  EXPECT_TRUE(ClientListener::adopt(UniqueFd(socket(AF_UNIX, SOCK_STREAM, 0)))
                  .error()
                  .is(Errc::InvalidArgument));
  EXPECT_TRUE(ClientListener::adopt(UniqueFd(::open("/dev/null", O_RDWR)))
                  .error()
                  .is(Errc::InvalidArgument));
  EXPECT_TRUE(ClientListener::adopt(UniqueFd()).error().is(Errc::InvalidArgument));
}

}  // namespace
}  // namespace wireup::acm
