// A source of the stopped peers that some place may still admit, for changes outside of the store: an
// agent acknowledged a state, or a replica came. Peers that every place rejects are not looked at again.

import { federationPeerKind } from '../../api/kinds/federation-peer.ts';
import type { Clock, Timer } from '../../core/clock/clock.ts';
import type { RunningSource, Source, SourceSink } from '../../core/reconcile/source.ts';
import { kindReader } from '../../core/store/reader.ts';
import type { Store } from '../../core/store/store.ts';
import { isStopped } from './stop.ts';

export type OnChange = (listener: () => void) => () => void;

export interface LaggingPeersParts {
  readonly store: Pick<Store, 'list'>;
  readonly clock: Clock;
  /** Asked when the source starts. */
  readonly changes: () => readonly OnChange[];
}

/** A thousand agents acknowledge a change within a second. */
const togetherMs = 50;

const peers = kindReader(federationPeerKind);

export class LaggingPeers implements Source {
  readonly #parts: LaggingPeersParts;

  constructor(parts: LaggingPeersParts) {
    this.#parts = parts;
  }

  start(sink: SourceSink): RunningSource {
    const { store, clock, changes } = this.#parts;
    let soon: Timer | undefined;
    const resync = (): void => {
      for (const peer of peers.list(store)) {
        const rows = peer.status?.enforcement;
        const lags = rows?.every(({ state }) => state === 'enforced') !== true;
        if (lags && isStopped(peer)) sink.add(peer.metadata.name);
      }
    };
    const stops = changes().map((onChange) =>
      onChange(() => {
        soon ??= clock.timer(togetherMs, () => {
          soon = undefined;
          resync();
        });
      }),
    );
    return {
      resync,
      stop: () => {
        soon?.cancel();
        for (const stop of stops) stop();
      },
    };
  }
}
