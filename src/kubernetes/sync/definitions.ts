// Asks a marked cluster for the CRDs of the kinds: their UIDs say whether absent objects were deleted.

import type { Kind } from '../../api/kind.ts';
import type { Clock } from '../../core/clock/clock.ts';
import type { KubeClient, KubeObject } from '../../core/kube/kube-client.ts';
import { KubeStatusError } from '../../core/kube/kube-errors.ts';
import { kubePath } from '../../core/kube/kube-path.ts';
import { recordIn, textIn } from '../members/field-values.ts';
import { definitionName } from './cluster-side-kind.ts';
import type { Definition } from './judge-absence.ts';

/** One request for many objects that come together. An old UID is corrected at the next resync. */
const recentMs = 30_000;

interface Recent {
  readonly definition: Definition;
  readonly readMs: number;
}

export class Definitions {
  readonly #client: Pick<KubeClient, 'get'>;
  readonly #clock: Pick<Clock, 'monotonic'>;
  readonly #recent = new Map<string, Recent>();

  constructor(client: Pick<KubeClient, 'get'>, clock: Pick<Clock, 'monotonic'>) {
    this.#client = client;
    this.#clock = clock;
  }

  /** As it is now. Rejects as `KubeClient.get`, except for 404. */
  async read(kind: Kind): Promise<Definition> {
    const readMs = this.#clock.monotonic();
    const definition = await this.#ask(kind);
    this.#recent.set(kind.kind, { definition, readMs });
    return definition;
  }

  /** As it was within the last 30 seconds. */
  async recent(kind: Kind): Promise<Definition> {
    const known = this.#recent.get(kind.kind);
    const isRecent = known !== undefined && this.#clock.monotonic() - known.readMs < recentMs;
    return isRecent ? known.definition : this.read(kind);
  }

  async #ask(kind: Kind): Promise<Definition> {
    const name = definitionName(kind);
    const path = kubePath`/apis/apiextensions.k8s.io/v1/customresourcedefinitions/${name}`;
    let found: KubeObject;
    try {
      found = await this.#client.get(path);
    } catch (error) {
      if (error instanceof KubeStatusError && error.status === 404) return { state: 'missing' };
      throw error;
    }
    const { uid, deletionTimestamp } = recordIn(found.metadata);
    if (deletionTimestamp !== undefined && deletionTimestamp !== null) return { state: 'deleting' };
    return { state: 'served', uid: textIn(uid) ?? '' };
  }
}
