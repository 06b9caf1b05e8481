// SPDX-License-Identifier: Apache-2.0
package io.megaphone.checkpoint

/** The plan log: the numbered records that say which worker has which bin at every batch, and how
  * far each plan has come. It depends on `errors`, `format` and `plan`. A caller may rely on
  * append: of two drivers that append the same number, one finds out.
  */
package object planlog
