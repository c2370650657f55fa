import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.ExponentialBackoffRetry;

/**
 * A Java program with Curator's own mutex that does as it is told on standard input: "id command path [ms]"
 * per line, answered by "id answer". A mutex belongs to the thread that took it, so each id of an acquire
 * has a thread of its own, which also releases it.
 */
public final class CuratorPeer {
  private static final Map<String, ExecutorService> threads = new ConcurrentHashMap<>();
  private static final Map<String, InterProcessMutex> held = new ConcurrentHashMap<>();

  public static void main(String[] args) throws Exception {
    CuratorFramework client =
        CuratorFrameworkFactory.newClient(
            args[0], Integer.parseInt(args[1]), 5_000, new ExponentialBackoffRetry(50, 10));
    client.start();
    client.blockUntilConnected();
    answer("0", "ready");
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      String[] words = line.split(" ");
      String id = words[0];
      String[] command = words;
      ExecutorService thread =
          threads.computeIfAbsent(
              words[1].equals("release") ? words[2] : id, key -> Executors.newSingleThreadExecutor());
      thread.submit(() -> run(client, id, command));
    }
    System.exit(0);
  }

  private static void run(CuratorFramework client, String id, String[] command) {
    try {
      if (command[1].equals("acquire")) {
        InterProcessMutex mutex = new InterProcessMutex(client, command[2]);
        boolean granted = mutex.acquire(Long.parseLong(command[3]), TimeUnit.MILLISECONDS);
        if (granted) held.put(id, mutex);
        answer(id, granted ? "granted" : "timeout");
      } else {
        held.remove(command[2]).release();
        answer(id, "released");
      }
    } catch (Exception error) {
      answer(id, "failed " + error);
    }
  }

  private static synchronized void answer(String id, String text) {
    System.out.println(id + " " + text);
    System.out.flush();
  }
}
