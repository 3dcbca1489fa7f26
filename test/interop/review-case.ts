// What a case of the TokenReview comparison is, and how most are made.

import type { ReviewScene } from './review-scene.ts';

export interface Asked {
  readonly body: string | Buffer;
  readonly contentType?: string;
  readonly accept?: string;
}

/** What is compared. */
export interface Answer {
  readonly status: number;
  readonly body: unknown;
}

export type Mode = 'jwks' | 'hybrid' | 'tokenreview';

/** How modes must differ from kube-apiserver. */
export interface Deviation {
  readonly modes: readonly Mode[];
  readonly reason: string;
  /** The answer of the site: the token is accepted, denied without a text, or refused with such a text. */
  readonly ours: 'accepted' | 'denied' | RegExp;
}

export interface Case {
  readonly name: string;
  /** Called once for each mode. */
  readonly ask: (scene: ReviewScene) => Asked | Promise<Asked>;
  readonly deviation?: Deviation;
  /** Objects were deleted, and the API server notices it a moment later: ask until it denies. */
  readonly untilDenied?: true;
}

export function review(token: unknown, audiences?: unknown, more: object = {}): Asked {
  const spec = audiences === undefined ? { token } : { token, audiences };
  return { body: JSON.stringify({ apiVersion, kind: 'TokenReview', spec, ...more }) };
}

export const apiVersion = 'authentication.k8s.io/v1';
export const everywhere: readonly Mode[] = ['jwks', 'hybrid', 'tokenreview'];

/** A case about a token alone, asked without audiences. */
export function about(
  name: string,
  make: (scene: ReviewScene) => string | Promise<string>,
  deviation?: Deviation,
): Case {
  return {
    name,
    ask: async (scene) => review(await make(scene)),
    ...(deviation === undefined ? {} : { deviation }),
  };
}

let names = 0;

export function fresh(prefix: string): string {
  names += 1;
  return `${prefix}-${names}`;
}

export const seconds = (offset: number): number => Math.floor(Date.now() / 1000) + offset;
