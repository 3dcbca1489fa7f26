// The metrics registry: keeps values in memory and writes them in the Prometheus text exposition
// format 0.0.4 when scraped.

import type { Counter, Distribution, Gauge, Histogram, MetricOptions, Metrics } from './metrics.ts';

/**
 * Most label sets of one metric. Labels must come from bounded sets. If a bug makes them grow anyway,
 * further ones count under `other` instead of filling the memory.
 */
const mostChildren = 2000;
const otherKey = '\0other';

const metricName = /^[a-zA-Z_:][a-zA-Z0-9_:]*$/;
const labelName = /^(?!__)[a-zA-Z_][a-zA-Z0-9_]*$/;

type Labels = Readonly<Record<string, string>>;

/** Sets the values of series that it names. */
type Source<Child> = (childOf: (labels: Labels) => Child) => void;

interface Family {
  readonly name: string;
  pieces(): Generator<string, void>;
}

/** Adding, setting and observing cost one map lookup and no allocation for up to one label. */
export class MetricsRegistry implements Metrics {
  readonly #families = new Map<string, Family>();

  counter<L extends string = never>(options: MetricOptions<L>): Counter<L> {
    const sources: Source<{ value: number }>[] = [];
    const children = this.#declare(options, 'counter', () => ({ value: 0 }), exposeValue, sources);
    const grow = (child: { value: number }, by: number): void => {
      // Also rejects NaN, which would stay for ever.
      if (!(by >= 0)) throw new RangeError(`counter ${options.name} cannot grow by ${by}`);
      child.value += by;
    };
    return {
      add: (labels, by = 1) => grow(children.get(labels), by),
      series: (labels) => {
        const child = children.get(labels);
        return { add: (by = 1) => grow(child, by) };
      },
      source: (read) => {
        sources.push((childOf) =>
          read((labels, value) => {
            if (value >= 0) childOf(labels).value = value;
          }),
        );
      },
      forget: (labels) => children.forget(labels),
    };
  }

  gauge<L extends string = never>(options: MetricOptions<L>): Gauge<L> {
    const children = this.#declare(options, 'gauge', () => ({ value: 0 }), exposeValue);
    return {
      set(labels, value) {
        children.get(labels).value = value;
      },
      forget: (labels) => children.forget(labels),
    };
  }

  histogram<L extends string = never>(
    options: MetricOptions<L> & { readonly buckets: readonly number[] },
  ): Histogram<L> {
    const { name, buckets } = options;
    if (options.labels?.some((label) => label === 'le')) {
      throw new Error(`histogram ${name} cannot have the label "le"`);
    }
    if (
      buckets.some((bound, i) => !Number.isFinite(bound) || bound <= (buckets[i - 1] ?? -Infinity))
    ) {
      throw new Error(`the buckets of histogram ${name} must be finite and ascending`);
    }
    const sources: Source<HistogramChild>[] = [];
    const children = this.#declare(
      options,
      'histogram',
      (): HistogramChild => ({ counts: new Float64Array(buckets.length + 1), sum: 0 }),
      (_, labels, child) => exposeHistogram(name, labels, buckets, child),
      sources,
    );
    const observe = (child: HistogramChild, value: number): void => {
      if (Number.isNaN(value)) return;
      let bucket = 0;
      while (bucket < buckets.length && value > (buckets[bucket] as number)) bucket++;
      child.counts[bucket] = (child.counts[bucket] as number) + 1;
      child.sum += value;
    };
    return {
      observe: (labels, value) => observe(children.get(labels), value),
      series: (labels) => {
        const child = children.get(labels);
        return { observe: (value) => observe(child, value) };
      },
      source: (read) => {
        sources.push((childOf) =>
          read((labels, { counts, sum }: Distribution) => {
            if (counts.length !== buckets.length + 1) return;
            const child = childOf(labels);
            child.counts.set(counts);
            child.sum = sum;
          }),
        );
      },
      forget: (labels) => children.forget(labels),
    };
  }

  /** A name that ends in `_total` is exposed as a counter, any other as a gauge. */
  observe<L extends string = never>(
    options: MetricOptions<L>,
    read: (
      report: (labels: Readonly<Record<L, string>>, value: number) => void,
    ) => void | Generator<undefined, void>,
  ): void {
    const { name } = options;
    this.#add(options, {
      name,
      pieces: function* () {
        // Fresh children per scrape, so that values that are gone disappear.
        const children = new Children(options, () => ({ value: 0 }));
        const steps = read((labels, value) => {
          children.get(labels).value = value;
        });
        for (const _ of steps ?? []) yield '';
        yield header(options, name.endsWith('_total') ? 'counter' : 'gauge');
        for (const [labels, child] of children) yield exposeValue(name, labels, child);
      },
    });
  }

  expose(): string {
    let text = '';
    for (const piece of this.pieces()) text += piece;
    return text;
  }

  *pieces(): Generator<string, void> {
    for (const name of [...this.#families.keys()].toSorted()) {
      yield* this.#families.get(name)?.pieces() ?? [];
    }
  }

  #declare<Child>(
    options: MetricOptions<string>,
    type: string,
    create: () => Child,
    expose: (name: string, labels: string, child: Child) => string,
    sources: readonly Source<Child>[] = [],
  ): Children<Child> {
    const children = new Children(options, create);
    const { name, labels = [] } = options;
    // A metric without labels shows from the start, as zero, so that its absence means something.
    if (labels.length === 0) children.get({});
    this.#add(options, {
      name,
      pieces: function* () {
        yield header(options, type);
        for (const [shown, child] of children) yield expose(name, shown, child);
        if (sources.length === 0) return;
        // Fresh children per scrape, as for observed values.
        const read = new Children(options, create);
        for (const source of sources) source((values) => read.get(values));
        for (const [shown, child] of read) yield expose(name, shown, child);
      },
    });
    return children;
  }

  #add(options: MetricOptions<string>, family: Family): void {
    const { name, labels = [] } = options;
    if (!metricName.test(name)) throw new Error(`"${name}" cannot be the name of a metric`);
    for (const label of labels) {
      if (!labelName.test(label))
        throw new Error(`metric ${name} cannot have the label "${label}"`);
    }
    if (new Set(labels).size !== labels.length) throw new Error(`metric ${name} has a label twice`);
    if (this.#families.has(name)) throw new Error(`metric ${name} is declared twice`);
    this.#families.set(name, family);
  }
}

/** The time series of one metric, by their label values. */
class Children<Child> {
  readonly #names: readonly string[];
  readonly #create: () => Child;
  readonly #most: number;
  readonly #byKey = new Map<string, { readonly labels: string; readonly child: Child }>();

  constructor(options: MetricOptions<string>, create: () => Child) {
    this.#names = options.labels ?? [];
    this.#create = create;
    this.#most = Math.max(options.mostSeries ?? 0, mostChildren);
  }

  get(labels: Labels): Child {
    const key = this.#keyOf(labels);
    return (this.#byKey.get(key) ?? this.#add(key, labels)).child;
  }

  #keyOf(labels: Readonly<Partial<Labels>>): string {
    const names = this.#names;
    let key = names.length === 0 ? '' : String(labels[names[0] as string]);
    // Label values contain no NUL. One that did could only merge with another series.
    for (let i = 1; i < names.length; i++) key += `\0${labels[names[i] as string]}`;
    return key;
  }

  forget(labels: Readonly<Partial<Labels>>): void {
    if (this.#names.length > 0 && this.#names.every((name) => Object.hasOwn(labels, name))) {
      this.#byKey.delete(this.#keyOf(labels));
      return;
    }
    const wanted = Object.entries(labels).map(
      ([name, value]) => [this.#names.indexOf(name), value] as const,
    );
    if (wanted.length === 0) return;
    for (const key of this.#byKey.keys()) {
      // Series under `other` cannot be separated again.
      if (key === otherKey) continue;
      const values = key.split('\0');
      if (wanted.every(([at, value]) => values[at] === value)) this.#byKey.delete(key);
    }
  }

  *[Symbol.iterator](): Generator<[labels: string, child: Child]> {
    for (const { labels, child } of this.#byKey.values()) yield [labels, child];
  }

  #add(key: string, labels: Labels): { readonly labels: string; readonly child: Child } {
    const full = this.#byKey.size >= this.#most;
    const effectiveKey = full ? otherKey : key;
    const existing = this.#byKey.get(effectiveKey);
    if (existing !== undefined) return existing;
    const text = this.#names
      .map((name) => `${name}="${full ? 'other' : escapeLabel(String(labels[name]))}"`)
      .join(',');
    const added = { labels: text, child: this.#create() };
    this.#byKey.set(effectiveKey, added);
    return added;
  }
}

interface HistogramChild {
  /** Observations per bucket, not cumulative; summed up when exposed. The last is +Inf. */
  readonly counts: Float64Array;
  sum: number;
}

function header({ name, help }: MetricOptions<string>, type: string): string {
  const escaped = help.replaceAll('\\', '\\\\').replaceAll('\n', '\\n');
  return `# HELP ${name} ${escaped}\n# TYPE ${name} ${type}\n`;
}

function exposeValue(name: string, labels: string, child: { readonly value: number }): string {
  return `${name}${labels === '' ? '' : `{${labels}}`} ${formatNumber(child.value)}\n`;
}

function exposeHistogram(
  name: string,
  labels: string,
  buckets: readonly number[],
  { counts, sum }: HistogramChild,
): string {
  const prefix = labels === '' ? '' : `${labels},`;
  const suffix = labels === '' ? '' : `{${labels}}`;
  let text = '';
  let total = 0;
  for (let i = 0; i < counts.length; i++) {
    total += counts[i] as number;
    const bound = i < buckets.length ? formatNumber(buckets[i] as number) : '+Inf';
    text += `${name}_bucket{${prefix}le="${bound}"} ${total}\n`;
  }
  return `${text}${name}_sum${suffix} ${formatNumber(sum)}\n${name}_count${suffix} ${total}\n`;
}

function formatNumber(value: number): string {
  if (value === Number.POSITIVE_INFINITY) return '+Inf';
  if (value === Number.NEGATIVE_INFINITY) return '-Inf';
  return String(value);
}

function escapeLabel(value: string): string {
  return value.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n');
}
