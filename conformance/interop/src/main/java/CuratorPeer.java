import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.ExponentialBackoffRetry;

/** Curator's own mutex. Arguments: servers, session timeout in ms. Acquire: path, wait in ms. */
public final class CuratorPeer {
  public static void main(String[] args) throws Exception {
    CuratorFramework client =
        CuratorFrameworkFactory.newClient(
            args[0], Integer.parseInt(args[1]), 5_000, new ExponentialBackoffRetry(50, 10));
    client.start();
    client.blockUntilConnected();
    Peer.serve(
        words -> {
          InterProcessMutex mutex = new InterProcessMutex(client, words[0]);
          boolean granted = mutex.acquire(Long.parseLong(words[1]), TimeUnit.MILLISECONDS);
          return granted ? new Peer.Held("-", mutex::release) : null;
        });
  }
}
