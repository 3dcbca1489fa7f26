import assert from 'node:assert/strict';
import { channel } from 'node:diagnostics_channel';
import { test } from 'node:test';
import { systemClock } from '../../../core/clock/system.ts';
import { hasCode } from '../../../core/errors/error.ts';
import { defaultLimits } from './workload-connections.ts';
import { startWorkloadServer, type WorkloadServerOptions } from './workload-server.ts';

test('a server whose socket cannot be opened leaves nobody listening to streams', async () => {
  const options: Partial<WorkloadServerOptions> = {
    path: '/nowhere/workload.sock',
    clock: systemClock,
    limits: defaultLimits,
    isServing: () => true,
    workloads: {} as WorkloadServerOptions['workloads'],
    authorization: {} as WorkloadServerOptions['authorization'],
    secrets: {} as WorkloadServerOptions['secrets'],
  };
  await assert.rejects(startWorkloadServer(options as WorkloadServerOptions), (error) =>
    hasCode(error, 'HANSA_CONFIG_INVALID'),
  );
  assert.equal(channel('http2.server.stream.created').hasSubscribers, false);
});
