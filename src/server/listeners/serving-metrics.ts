// What the listeners have in hand, read when somebody scrapes.

import type { Kind } from '../../api/kind.ts';
import type { Metrics } from '../../core/metrics/metrics.ts';
import type { Limits } from '../http/limits.ts';
import type { Watches } from '../resources/watches.ts';

export function observeServing(
  metrics: Metrics,
  kinds: readonly Kind[],
  watches: Watches,
  limits: readonly Limits[],
): void {
  metrics.observe(
    { name: 'hansa_api_watchers', help: 'Open watches, by resource.', labels: ['resource'] },
    (report) => {
      for (const kind of kinds) report({ resource: kind.plural }, watches.count(kind.plural));
    },
  );
  metrics.observe(
    {
      name: 'hansa_api_watch_unread_bytes',
      help: 'Bytes that were written for watches and not read by their clients yet.',
    },
    (report) => report({}, watches.unreadBytes),
  );
  metrics.observe(
    {
      name: 'hansa_api_requests_in_flight',
      help: 'Requests that are being worked on; watches are not counted.',
    },
    (report) =>
      report(
        {},
        limits.reduce((sum, { inFlight }) => sum + inFlight, 0),
      ),
  );
}
