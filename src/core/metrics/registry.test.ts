import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as fc from 'fast-check';
import { systemClock } from '../clock/system.ts';
import { registerProcessMetrics } from './process-metrics.ts';
import { MetricsRegistry } from './registry.ts';

describe('the metrics registry', () => {
  test('exposes counters and gauges with help, type and labels, sorted by name', () => {
    const metrics = new MetricsRegistry();
    const depth = metrics.gauge({ name: 'queue_depth', help: 'Waiting keys.' });
    const requests = metrics.counter({
      name: 'api_requests_total',
      help: 'Requests.',
      labels: ['verb', 'code'],
    });
    requests.add({ verb: 'get', code: '200' });
    requests.add({ code: '200', verb: 'get' }, 2);
    requests.add({ verb: 'list', code: '200' });
    depth.set({}, -1.5);
    assert.equal(
      metrics.expose(),
      `# HELP api_requests_total Requests.
# TYPE api_requests_total counter
api_requests_total{verb="get",code="200"} 3
api_requests_total{verb="list",code="200"} 1
# HELP queue_depth Waiting keys.
# TYPE queue_depth gauge
queue_depth -1.5
`,
    );
  });

  test('shows a metric without labels from the start, as zero', () => {
    const metrics = new MetricsRegistry();
    metrics.counter({ name: 'a_total', help: 'A.' });
    assert.match(metrics.expose(), /^a_total 0$/m);
  });

  test('exposes series of other processes beside its own, as they are at each scrape', () => {
    const metrics = new MetricsRegistry();
    const fetches = metrics.counter({ name: 'fetches', help: 'F.', labels: ['server'] });
    const labels = ['server'] as const;
    const took = metrics.histogram({ name: 'took', help: 'T.', labels, buckets: [1] });
    let value = 7;
    fetches.add({ server: '' });
    fetches.source((report) => report({ server: 'a' }, value));
    took.source((report) => {
      report({ server: 'a' }, { counts: [2, 3], sum: 9 });
      report({ server: 'other-buckets' }, { counts: [2], sum: 9 });
    });
    assert.match(metrics.expose(), /^fetches\{server=""\} 1\nfetches\{server="a"\} 7$/m);
    assert.match(metrics.expose(), /^took_bucket\{server="a",le="\+Inf"\} 5$/m);
    assert.doesNotMatch(metrics.expose(), /other-buckets/);
    // The other process started again.
    value = 2;
    assert.match(metrics.expose(), /^fetches\{server="a"\} 2$/m);
    value = -1;
    assert.doesNotMatch(metrics.expose(), /server="a"\} -1/);
  });

  test('exposes histograms with cumulative buckets, sum and count', () => {
    const metrics = new MetricsRegistry();
    const seconds = metrics.histogram({
      name: 'took_seconds',
      help: 'Took.',
      labels: ['verb'],
      buckets: [0.1, 1],
    });
    for (const value of [0.05, 0.1, 0.5, 1, 7]) seconds.observe({ verb: 'get' }, value);
    seconds.observe({ verb: 'get' }, Number.NaN);
    assert.equal(
      metrics.expose(),
      `# HELP took_seconds Took.
# TYPE took_seconds histogram
took_seconds_bucket{verb="get",le="0.1"} 2
took_seconds_bucket{verb="get",le="1"} 4
took_seconds_bucket{verb="get",le="+Inf"} 5
took_seconds_sum{verb="get"} 8.65
took_seconds_count{verb="get"} 5
`,
    );
  });

  test('escapes help and label values', () => {
    const metrics = new MetricsRegistry();
    metrics
      .counter({ name: 'a_total', help: 'one\\two\nthree', labels: ['l'] })
      .add({ l: 'q"b\\n\nend' });
    assert.equal(
      metrics.expose(),
      '# HELP a_total one\\\\two\\nthree\n# TYPE a_total counter\na_total{l="q\\"b\\\\n\\nend"} 1\n',
    );
  });

  test('keeps every sample on one line, whatever the label values', () => {
    fc.assert(
      fc.property(fc.string(), fc.string(), (a, b) => {
        const metrics = new MetricsRegistry();
        metrics.counter({ name: 'a_total', help: 'A.', labels: ['a', 'b'] }).add({ a, b });
        assert.equal(metrics.expose().split('\n').length, 4);
      }),
    );
  });

  test('reads observed values at each scrape and forgets what is not reported any more', () => {
    const metrics = new MetricsRegistry();
    const ages = new Map([['a', 1]]);
    metrics.observe({ name: 'age_seconds', help: 'Age.', labels: ['of'] }, (report) => {
      for (const [of, value] of ages) report({ of }, value);
    });
    metrics.observe({ name: 'read_total', help: 'Reads.' }, (report) => report({}, 4));
    assert.match(metrics.expose(), /^age_seconds\{of="a"\} 1$/m);
    assert.match(metrics.expose(), /^# TYPE read_total counter$/m);
    ages.clear();
    assert.doesNotMatch(metrics.expose(), /age_seconds\{/);
  });

  test('does not show an observed value that nobody reports as zero', () => {
    const metrics = new MetricsRegistry();
    metrics.observe({ name: 'open_fds', help: 'Open.' }, () => {});
    assert.doesNotMatch(metrics.expose(), /^open_fds /m);
  });

  test('writes infinities as Prometheus does', () => {
    const metrics = new MetricsRegistry();
    const gauge = metrics.gauge({ name: 'g', help: 'G.', labels: ['i'] });
    gauge.set({ i: 'a' }, Number.POSITIVE_INFINITY);
    gauge.set({ i: 'b' }, Number.NEGATIVE_INFINITY);
    gauge.set({ i: 'c' }, Number.NaN);
    const lines = metrics.expose().split('\n').slice(2, 5);
    assert.deepEqual(lines, ['g{i="a"} +Inf', 'g{i="b"} -Inf', 'g{i="c"} NaN']);
  });

  test('counts label values beyond its bound together as other', () => {
    const metrics = new MetricsRegistry();
    const counter = metrics.counter({ name: 'a_total', help: 'A.', labels: ['name'] });
    for (let i = 0; i < 5000; i++) counter.add({ name: `n${i}` });
    const lines = metrics.expose().trimEnd().split('\n');
    assert.equal(lines.length, 2 + 2001);
    assert.equal(lines.at(-1), 'a_total{name="other"} 3000');
  });

  test('has more series than usual where something else bounds them, and no more than that', () => {
    const metrics = new MetricsRegistry();
    const a = metrics.counter({ name: 'a_total', help: 'A.', labels: ['name'], mostSeries: 2500 });
    for (let at = 0; at < 2502; at++) a.add({ name: String(at) });
    const lines = metrics.expose().trimEnd().split('\n');
    assert.equal(lines.at(-2), 'a_total{name="2499"} 1');
    assert.equal(lines.at(-1), 'a_total{name="other"} 2');
  });

  test('is told in pieces, of which each has one series or is a step of who reads', () => {
    const metrics = new MetricsRegistry();
    const a = metrics.counter({ name: 'a_total', help: 'A.', labels: ['name'] });
    for (const name of ['x', 'y']) a.add({ name });
    metrics.observe({ name: 'b', help: 'B.', labels: ['name'] }, function* (report) {
      for (const name of ['x', 'y']) {
        report({ name }, 2);
        yield;
      }
    });
    const pieces = [...metrics.pieces()];
    assert.deepEqual(pieces, [
      '# HELP a_total A.\n# TYPE a_total counter\n',
      'a_total{name="x"} 1\n',
      'a_total{name="y"} 1\n',
      '',
      '',
      '# HELP b B.\n# TYPE b gauge\n',
      'b{name="x"} 2\n',
      'b{name="y"} 2\n',
    ]);
    assert.equal(pieces.join(''), metrics.expose());
  });

  test('forgets what has some label values, and begins anew where they come back', () => {
    const metrics = new MetricsRegistry();
    const labels = ['of', 'class'] as const;
    const errors = metrics.counter({ name: 'errors_total', help: 'E.', labels });
    const took = metrics.histogram({ name: 'took', help: 'T.', labels: ['of'], buckets: [1] });
    const size = metrics.gauge({ name: 'size', help: 'S.', labels: ['of'] });
    for (const whose of ['a', 'b']) {
      errors.add({ of: whose, class: 'x' }, 7);
      errors.add({ of: whose, class: 'a' }, 7);
      took.observe({ of: whose }, 2);
      size.set({ of: whose }, 2);
    }
    for (const series of [errors, took, size]) series.forget({ of: 'a' });
    errors.forget({ of: 'b', class: 'x' });
    errors.forget({ of: 'nobody' });
    errors.forget({});
    const shown = metrics.expose().match(/^(?:errors_total|size|took_count)\{.*$/gm);
    assert.deepEqual(shown, [
      'errors_total{of="b",class="a"} 7',
      'size{of="b"} 2',
      'took_count{of="b"} 1',
    ]);
    errors.add({ of: 'a', class: 'x' });
    assert.match(metrics.expose(), /^errors_total\{of="a",class="x"\} 1$/m);
  });

  test('refuses what cannot be exposed: bad names, bad labels, bad buckets, twice the same name', () => {
    const metrics = new MetricsRegistry();
    metrics.counter({ name: 'a_total', help: 'A.' });
    assert.throws(() => metrics.gauge({ name: 'a_total', help: 'A.' }), /declared twice/);
    assert.throws(() => metrics.gauge({ name: 'a b', help: 'A.' }), /cannot be the name/);
    assert.throws(() => metrics.gauge({ name: 'b', help: '', labels: ['__x'] }), /cannot have/);
    assert.throws(() => metrics.gauge({ name: 'b', help: '', labels: ['x', 'x'] }), /twice/);
    const histogram = { name: 'h', help: 'H.' };
    assert.throws(() => metrics.histogram({ ...histogram, buckets: [1, 1] }), /ascending/);
    assert.throws(() => metrics.histogram({ ...histogram, buckets: [Infinity] }), /finite/);
    assert.throws(() => metrics.histogram({ ...histogram, labels: ['le'], buckets: [1] }), /le/);
  });

  test('refuses to let a counter shrink', () => {
    const counter = new MetricsRegistry().counter({ name: 'a_total', help: 'A.' });
    assert.throws(() => counter.add({}, -1), RangeError);
    assert.throws(() => counter.add({}, Number.NaN), RangeError);
  });
});

describe('the metrics of the process', () => {
  test('tell the build, what it uses, and how late the event loop is', async () => {
    const metrics = new MetricsRegistry();
    const running = registerProcessMetrics(metrics, systemClock, { version: '1.2.3' });
    try {
      // Delays are measured between ticks, of which a busy machine may have none for a while.
      let text = '';
      while (!text.includes('quantile')) {
        await new Promise((resolve) => setTimeout(resolve, 100));
        text = metrics.expose();
      }
      assert.match(
        text,
        /^hansa_build_info\{version="1\.2\.3",commit="unknown",node="v\d+\..*"\} 1$/m,
      );
      assert.match(text, /^process_open_fds [1-9]\d*$/m);
      assert.match(text, /^process_max_fds [1-9]\d*$/m);
      assert.match(text, /^process_resident_memory_bytes [1-9]\d+$/m);
      assert.match(text, /^hansa_event_loop_delay_seconds\{quantile="0\.99"\} \d/m);
      const start = Number(/^process_start_time_seconds (.*)$/m.exec(text)?.[1]);
      assert.ok(Math.abs(start - systemClock.now() / 1000) < 60);
    } finally {
      running.stop();
    }
  });
});
