# Targets for tests against Kafka; the Makefile includes this file.
.PHONY: test-kafka test-kfake docs-kafka bench-kafka

test-kafka: ## run the topic tests on a real broker, fetched and started here (or EVALSTREAM_TEST_BROKERS)
	cd topics/kafka/kafkatest && if [[ -n "$${EVALSTREAM_TEST_BROKERS:-}" ]]; then go test -count=1 -timeout 20m ./...; \
		else ../../../deploy/kafka/broker run go test -count=1 -timeout 20m -tags kafka$$(command -v kcat >/dev/null && echo ,kcat) ./...; fi

test-kfake: ## run the topic tests on a fake broker under the race detector
	cd topics/kafka/kafkatest && CGO_ENABLED=1 go test -race -count=1 -timeout 20m ./...

bench-kafka: ## measure over a real broker, next to Kafka's producer, kafka-go and Watermill; BENCHFLAGS, see bench/README.md
	deploy/kafka/broker run go run ./bench/kafka $(BENCHFLAGS)

.PHONY: chaos chaos-mutations
CHAOS = cd topics/kafka/kafkatest && go build -o ../../../bin/chaos ./chaos && cd ../../.. && EVALSTREAM_BROKER_COUNT=$(or $(BROKERS),2) deploy/kafka/broker run bin/chaos -root . $(if $(SEED),-seed $(SEED)) $(if $(ROUND),-round $(ROUND))

chaos: ## kill, stop and restart members and brokers of a pipeline over topics, and compare it with the pipe; SEED, ROUNDS or DURATION, ROUND, BROKERS
	$(CHAOS) $(if $(ROUNDS),-rounds $(ROUNDS)) $(if $(DURATION),-duration $(DURATION))

chaos-mutations: ## make chaos with parts of the mechanism taken away, which it must find; SEED, SEEDS, ONLY
	$(CHAOS) -mutations $(if $(SEEDS),-seeds $(SEEDS)) $(if $(ONLY),-only $(ONLY))

docs-kafka: ## execute the commands of README.md and docs/ that need a broker, on one started here (UPDATE=1 rewrites their output)
	go test -count=1 -timeout 8m -tags docs -run TestDocuments ./docs -kafka $(if $(UPDATE),-update)
