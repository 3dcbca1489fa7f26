// Metrics of the listeners, computed at each scrape: watches, unread bytes, requests in progress.

import type { Kind } from '../../api/kind.ts';
import type { Metrics } from '../../core/metrics/metrics.ts';
import type { Limits } from '../http/limits.ts';
import type { UnreadBudget } from '../http/unread-output.ts';
import type { Watches } from '../resources/watches.ts';

export function observeServing(
  metrics: Metrics,
  kinds: readonly Kind[],
  watches: Watches,
  unread: UnreadBudget,
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
      name: 'hansa_unread_bytes',
      help: 'Bytes of answers and watches that clients have not read yet.',
    },
    (report) => report({}, unread.bytes),
  );
  metrics.observe(
    {
      name: 'hansa_api_requests_in_flight',
      help: 'Requests in progress, without watches.',
    },
    (report) =>
      report(
        {},
        limits.reduce((sum, { inFlight }) => sum + inFlight, 0),
      ),
  );
}
