// SPDX-License-Identifier: Apache-2.0
package io.megaphone.log

/** The indexes over a log's records: a hash index for each column family, and an ordered one for
  * each ordered family. It depends on `log.record` and `log.memory`. An index holds positions of
  * live records, never keys, and is used by one thread at a time.
  */
package object index
