// SPDX-License-Identifier: Apache-2.0
package io.megaphone

/** The state as files: how a commit writes them, how a recovery reads them, how a holding catches
  * up, and which files the sweep deletes. It depends on `errors`, `log`, `format`, `plan` and
  * `state`, and reaches a file system only through the trait StateFiles. A caller may rely on
  * missing never being read as empty.
  */
package object checkpoint
