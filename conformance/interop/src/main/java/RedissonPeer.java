import java.util.Arrays;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.redisson.Redisson;
import org.redisson.RedissonRedLock;
import org.redisson.api.RFencedLock;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/**
 * Redisson's own locks. Arguments: watchdog in ms, then servers. Acquire: kind, name, wait in ms, lease in ms
 * or -1 for the watchdog. The kinds are "lock" and "fenced" on the first server, "redlock" on all of them.
 */
public final class RedissonPeer {
  public static void main(String[] args) throws Exception {
    long watchdogMs = Long.parseLong(args[0]);
    List<RedissonClient> clients =
        Arrays.stream(args).skip(1).map(url -> connect(url, watchdogMs)).collect(Collectors.toList());
    Peer.serve(words -> acquire(clients, words[0], words[1], Long.parseLong(words[2]), Long.parseLong(words[3])));
  }

  private static Peer.Held acquire(
      List<RedissonClient> clients, String kind, String name, long waitMs, long leaseMs) throws Exception {
    if (kind.equals("fenced")) {
      RFencedLock lock = clients.get(0).getFencedLock(name);
      Long token = lock.tryLockAndGetToken(waitMs, leaseMs, TimeUnit.MILLISECONDS);
      return token == null ? null : new Peer.Held(String.valueOf(token), lock::unlock);
    }
    RLock lock = kind.equals("redlock") ? redLock(clients, name) : clients.get(0).getLock(name);
    return lock.tryLock(waitMs, leaseMs, TimeUnit.MILLISECONDS) ? new Peer.Held("-", lock::unlock) : null;
  }

  @SuppressWarnings("deprecation")
  private static RLock redLock(List<RedissonClient> clients, String name) {
    return new RedissonRedLock(clients.stream().map(client -> client.getLock(name)).toArray(RLock[]::new));
  }

  private static RedissonClient connect(String url, long watchdogMs) {
    Config config = new Config().setLockWatchdogTimeout(watchdogMs).setThreads(4).setNettyThreads(4);
    config
        .useSingleServer()
        .setAddress(url)
        .setConnectionMinimumIdleSize(1)
        .setConnectionPoolSize(8)
        .setSubscriptionConnectionMinimumIdleSize(1)
        .setSubscriptionConnectionPoolSize(8);
    return Redisson.create(config);
  }
}
