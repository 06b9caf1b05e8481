// SPDX-License-Identifier: Apache-2.0
package io.megaphone.log;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;

/**
 * Eight-byte little-endian words in a byte array, and the hash of a byte range by words.
 *
 * <p>Java, because a {@link VarHandle} called from Scala boxes each word it reads (measured: eight times slower).
 */
public final class Words {
  private static final VarHandle LONG = MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.LITTLE_ENDIAN);
  private static final long MULTIPLIER = 0x9E3779B97F4A7C15L;

  private Words() {}

  /** The word at byte {@code offset}; throws IndexOutOfBoundsException beyond the array. */
  public static long get(byte[] bytes, int offset) {
    return (long) LONG.get(bytes, offset);
  }

  /** Sets the word at byte {@code offset}; throws IndexOutOfBoundsException beyond the array. */
  public static void set(byte[] bytes, int offset, long word) {
    LONG.set(bytes, offset, word);
  }

  /**
   * A 32-bit hash of a byte range, unrelated to the hash that chose the bin: within one bin the low bits of that one are
   * all alike, and an index over them would collide at every probe.
   */
  public static int hash(byte[] bytes, int offset, int length) {
    long h = length * MULTIPLIER;
    int end = offset + (length & ~7);
    int i = offset;
    for (; i < end; i += 8) {
      h = (h ^ get(bytes, i)) * MULTIPLIER;
      h ^= h >>> 29;
    }
    for (; i < offset + length; i++) {
      h = (h ^ bytes[i]) * MULTIPLIER;
      h ^= h >>> 29;
    }
    h *= MULTIPLIER;
    return (int) (h >>> 32);
  }
}
