// Asks promtool which alerts of deploy/prometheus fire for the metrics that a real site exposes.

import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { execute, repository, temporaryFolder } from './daemon.ts';

const rules = join(repository, 'deploy', 'prometheus', 'hansa.rules.yaml');

export const whyNoPromtool = (process.env['PATH'] ?? '')
  .split(':')
  .some((path) => existsSync(join(path, 'promtool')))
  ? false
  : 'SKIPPED: there is no promtool on the PATH';

/** The labels that all these alerts have. */
const common = new Set(['__name__', 'alertname', 'alertstate', 'job', 'instance', 'severity']);
/** More than the longest time in the rules about peers and logs, a quarter of an hour. */
const minutes = 20;

/**
 * The alerts that fire after the site `instance` has exposed these metrics of peers and audit logs for 20 minutes:
 * the name, and the values of the other labels. With `growing`, durations above zero grow in that time, as if what
 * they measure went on.
 */
export async function firingAlerts(
  instance: string,
  metrics: string,
  growing = false,
): Promise<readonly string[]> {
  const file = join(temporaryFolder(), 'alerts.test.yaml');
  const test = {
    rule_files: [rules],
    evaluation_interval: '1m',
    tests: [
      {
        interval: '1m',
        input_series: seriesOf(instance, metrics, growing),
        promql_expr_test: [
          { expr: 'ALERTS{alertstate="firing"}', eval_time: `${minutes}m`, exp_samples: [] },
        ],
      },
    ],
  };
  // JSON is YAML. promtool prints what it got where that is not what was expected: nothing.
  writeFileSync(file, JSON.stringify(test));
  const { code, stdout, stderr } = await execute('promtool', ['test', 'rules', file]);
  const said = stdout + stderr;
  if (code === 0) return [];
  const got = /\bgot:\s*(.*)/.exec(said)?.[1];
  if (got === undefined) throw new Error(said);
  return [...got.matchAll(/\{([^}]*)\} 1E\+00/g)]
    .map(([, labels = '']) => shortened(labels))
    .toSorted();
}

function seriesOf(instance: string, metrics: string, growing: boolean) {
  const samples = metrics.matchAll(
    /^(hansa_(?:peer|audit)_[a-z_]+)(?:\{(.*)\})? (-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)$/gm,
  );
  return [...samples].map(([, name = '', labels = '', value = '']) => {
    const grows = growing && name.endsWith('_seconds') && Number(value) > 0;
    const all = ['job="hansa"', `instance="${instance}"`, ...(labels === '' ? [] : [labels])];
    return {
      series: `${name}{${all.join(',')}}`,
      values: `${Number(value)}${grows ? '+60' : ''}x${minutes}`,
    };
  });
}

function shortened(labels: string): string {
  const pairs = [...labels.matchAll(/(\w+)="([^"]*)"/g)].map(([, key = '', value = '']) => ({
    key,
    value,
  }));
  const name = pairs.find(({ key }) => key === 'alertname')?.value ?? '';
  const kept = pairs.filter(({ key }) => !common.has(key)).map(({ value }) => value);
  return [name, ...kept].join(' ');
}
