import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/**
 * A program that does as it is told on standard input: "id acquire word…" and "id release id-of-acquire", one
 * per line, answered by "id answer". A lock belongs to the thread that took it, so each acquire has a thread
 * of its own, which also releases it.
 */
final class Peer {
  /** Something that was taken: what to say about it, and how to give it back. */
  record Held(String about, Release release) {}

  interface Release {
    void run() throws Exception;
  }

  interface Locks {
    /** Null when it cannot be acquired in time. */
    Held acquire(String[] words) throws Exception;
  }

  private record Taken(ExecutorService thread, Held held) {}

  private static final Map<String, Taken> taken = new ConcurrentHashMap<>();

  static void serve(Locks locks) throws Exception {
    answer("0", "ready");
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      String[] words = line.split(" ");
      String id = words[0];
      if (words[1].equals("release")) {
        Taken mine = taken.remove(words[2]);
        mine.thread().submit(() -> release(id, mine));
      } else {
        ExecutorService thread = Executors.newSingleThreadExecutor();
        thread.submit(() -> acquire(thread, locks, id, words));
      }
    }
    System.exit(0);
  }

  private static void acquire(ExecutorService thread, Locks locks, String id, String[] words) {
    try {
      Held held = locks.acquire(java.util.Arrays.copyOfRange(words, 2, words.length));
      if (held != null) taken.put(id, new Taken(thread, held));
      else thread.shutdown();
      answer(id, held == null ? "timeout" : "granted " + held.about());
    } catch (Exception error) {
      answer(id, "failed " + error);
    }
  }

  private static void release(String id, Taken mine) {
    try {
      mine.held().release().run();
      answer(id, "released");
    } catch (Exception error) {
      answer(id, "failed " + error);
    } finally {
      mine.thread().shutdown();
    }
  }

  private static synchronized void answer(String id, String text) {
    System.out.println(id + " " + text);
    System.out.flush();
  }
}
