// The interface of metrics, in the Prometheus data model. There is no global registry: components
// receive a `Metrics`.

export interface MetricOptions<Labels extends string> {
  readonly name: string;
  readonly help: string;
  readonly labels?: readonly Labels[];
  /**
   * Most time series, where the metric needs more than the default and something else enforces
   * the limit, such as a setting.
   */
  readonly mostSeries?: number;
}

type LabelValues<Labels extends string> = Readonly<Record<Labels, string>>;

/** The time series of one metric. */
interface Series<Labels extends string> {
  /**
   * Removes the series with these label values (all labels or some), when the object that they name is
   * gone. A series that comes back starts from zero. O(series of the metric), unless all labels are given.
   */
  forget(labels: Partial<LabelValues<Labels>>): void;
}

export interface Counter<Labels extends string> extends Series<Labels> {
  add(labels: LabelValues<Labels>, by?: number): void;
  /** One series, for code that counts often. Do not use it after the series was forgotten. */
  series(labels: LabelValues<Labels>): { add(by?: number): void };
  /** Adds series that another process counts. `read` is called at each scrape. */
  source(read: (report: (labels: LabelValues<Labels>, value: number) => void) => void): void;
}

/** What a histogram counted. */
export interface Distribution {
  /** In each bucket, not cumulative. The last one is +Inf. */
  readonly counts: readonly number[];
  readonly sum: number;
}

export interface Gauge<Labels extends string> extends Series<Labels> {
  set(labels: LabelValues<Labels>, value: number): void;
}

export interface Histogram<Labels extends string> extends Series<Labels> {
  observe(labels: LabelValues<Labels>, value: number): void;
  /** One series, for code that observes often. Do not use it after the series was forgotten. */
  series(labels: LabelValues<Labels>): { observe(value: number): void };
  /** As `Counter.source`. A distribution with other buckets is left out. */
  source(read: (report: (labels: LabelValues<Labels>, value: Distribution) => void) => void): void;
}

/**
 * Declaring the same name twice is a programming error and throws. Label values must come from a
 * bounded set: never directly from a request.
 */
export interface Metrics {
  counter<Labels extends string = never>(options: MetricOptions<Labels>): Counter<Labels>;
  gauge<Labels extends string = never>(options: MetricOptions<Labels>): Gauge<Labels>;
  /** Buckets are upper bounds in ascending order; +Inf is implied. */
  histogram<Labels extends string = never>(
    options: MetricOptions<Labels> & { readonly buckets: readonly number[] },
  ): Histogram<Labels>;
  /**
   * Reads a value on each scrape, for sizes and ages that already exist elsewhere. With thousands of
   * series, `read` should be a generator that yields after every few, so that other tasks can run.
   */
  observe<Labels extends string = never>(
    options: MetricOptions<Labels>,
    read: (
      report: (labels: LabelValues<Labels>, value: number) => void,
    ) => void | Generator<undefined, void>,
  ): void;
  /** The Prometheus text exposition format, version 0.0.4. */
  expose(): string;
  /** The same in chunks (some of them empty), each cheap to produce. */
  pieces(): Generator<string, void>;
}
