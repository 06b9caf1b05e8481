// SPDX-License-Identifier: Apache-2.0
package io.megaphone

/** The names of state and the one format that state is kept and transferred in: delta files of
  * chunks, frames and a footer (`docs/spec/format.md`). It depends on `errors` and `log`, and on no
  * file system. A damaged, truncated or foreign file is always an error, which names the file, what
  * was expected and what was found.
  */
package object format
