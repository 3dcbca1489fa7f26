// The image of a SPIRE server: which texts are images, and which version of SPIRE a tag names. Pure.

import { ValueProblem } from '../../core/config/config-values.ts';

/** A reference as container runtimes read it: registry/path:tag@digest. */
export function parseImage(text: string): string {
  const isImage =
    text.length <= 512 &&
    /^[a-z0-9]([-a-z0-9._/]|:[0-9]+\/)*(:[A-Za-z0-9_][A-Za-z0-9._-]{0,127})?(@sha256:[0-9a-f]{64})?$/.test(
      text,
    );
  if (!isImage) {
    throw new ValueProblem('an image, for example ghcr.io/spiffe/spire-server:1.12.4');
  }
  return text;
}

export interface SpireVersion {
  readonly major: number;
  readonly minor: number;
}

/** The first version that can federate as this operator configures it. */
const oldest: SpireVersion = { major: 1, minor: 5 };

/** From 1.12.4, v1.12.4 or the tag of an image. Undefined where it says nothing about the version. */
export function spireVersionIn(text: string): SpireVersion | undefined {
  const tag = /(?:^|:)v?(\d{1,4})\.(\d{1,4})(?:\.\d{1,6})?(?:-[A-Za-z0-9.-]+)?(?:@|$)/.exec(text);
  if (tag === null) return undefined;
  return { major: Number(tag[1]), minor: Number(tag[2]) };
}

export function isTooOld({ major, minor }: SpireVersion): boolean {
  return major < oldest.major || (major === oldest.major && minor < oldest.minor);
}
